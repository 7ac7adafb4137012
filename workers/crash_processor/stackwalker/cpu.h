// The registers of a CPU, and where a minidump's context record keeps them.
#ifndef CPU_H
#define CPU_H

#include "reader.h"

enum { CPU_MAX_REGISTERS = 17 };

struct cpu {
    const char *name;  // as reports write it
    unsigned n_registers;
    const char *const *registers;
    const uint16_t *context_offsets;
    unsigned ip, sp, bp;  // places in the arrays
    unsigned width;       // bytes of a register
    uint32_t callee_saved;  // bit set: registers a function leaves as it found them
    size_t context_size;
    size_t flags_offset;
    uint32_t flags;  // the CPU bits that context_flags must show
};

struct registers {
    uint64_t value[CPU_MAX_REGISTERS];
    uint32_t valid;  // bit set; the others hold leftovers
};

extern const struct cpu cpu_amd64;
extern const struct cpu cpu_x86;

// Reads a context record; false when it is too short or of another CPU.
bool cpu_read_context(const struct cpu *cpu, struct slice context, struct registers *registers);

// The place of the register of that name (without "$"), or -1.
int cpu_register(const struct cpu *cpu, struct slice name);

#endif
