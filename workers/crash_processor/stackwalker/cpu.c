#include "cpu.h"

static const char *const amd64_names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                          "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
static const uint16_t amd64_offsets[] = {120, 136, 128, 144, 168, 176, 160, 152, 184,
                                         192, 200, 208, 216, 224, 232, 240, 248};

const struct cpu cpu_amd64 = {
    .name = "amd64",
    .n_registers = 17,
    .registers = amd64_names,
    .context_offsets = amd64_offsets,
    .ip = 16,
    .sp = 7,
    .bp = 6,
    .width = 8,
    .callee_saved = 1u << 3 | 1u << 6 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15,  // rbx rbp r12-r15
    .context_size = 1232,
    .flags_offset = 48,
    .flags = 0x100000,
};

static const char *const x86_names[] = {"eip", "esp", "ebp", "ebx", "esi", "edi", "eax", "ecx", "edx", "eflags"};
static const uint16_t x86_offsets[] = {184, 196, 180, 164, 160, 156, 176, 172, 168, 192};

const struct cpu cpu_x86 = {
    .name = "x86",
    .n_registers = 10,
    .registers = x86_names,
    .context_offsets = x86_offsets,
    .ip = 0,
    .sp = 1,
    .bp = 2,
    .width = 4,
    .callee_saved = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5,  // ebp ebx esi edi
    .context_size = 716,
    .flags_offset = 0,
    .flags = 0x10000,
};

// The bits of context_flags that name a CPU; the others below 0x100 say which registers were saved.
static const uint32_t known_cpu_flags = 0x80000 | 0x20000 | 0x100000 | 0x40000000 | 0x400000 | 0x80000000 | 0x40000 |
                                        0x20000000 | 0x1000000 | 0x10000000 | 0x10000;

bool cpu_read_context(const struct cpu *cpu, struct slice context, struct registers *registers)
{
    if (context.size < cpu->context_size) return false;
    if ((u32_at(context, cpu->flags_offset) & known_cpu_flags) != cpu->flags) return false;
    for (unsigned i = 0; i < cpu->n_registers; i++) {
        registers->value[i] = little_endian(context.data + cpu->context_offsets[i], cpu->width);
    }
    registers->valid = (UINT32_C(1) << cpu->n_registers) - 1;
    return true;
}

int cpu_register(const struct cpu *cpu, struct slice name)
{
    for (unsigned i = 0; i < cpu->n_registers; i++) {
        if (slice_is(name, cpu->registers[i])) return (int)i;
    }
    return -1;
}
