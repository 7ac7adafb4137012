#include "walk.h"

// Words looked at in a scan: more after a frame that is certain, where code without symbols (JIT) may follow.
enum { SCAN_WORDS = 40, SCAN_WORDS_AFTER_CERTAIN_FRAME = 160 };

// A frame pointer further away than this is taken for some other value.
enum { MAX_FRAME_BYTES = 128 * 1024 };

// Windows code may point rbp up to 240 bytes into its frame, in steps of 16.
enum { WINDOWS_FRAME_POINTER_STEPS = 16, WINDOWS_FRAME_POINTER_STEP = 16 };

// Return addresses below this end a stack: the first page is never mapped.
enum { FIRST_PAGE = 4096 };

const char *trust_name(enum trust trust)
{
    static const char *const names[] = {"context", "cfi", "frame_pointer", "scan"};
    return names[trust];
}

// A step from a callee to its caller.
struct step {
    struct walker *walker;
    const struct cpu *cpu;
    const struct memory *stack;
    const struct registers *callee;
    uint64_t instruction;
    enum trust trust;
};

static bool is_valid(const struct registers *registers, unsigned place)
{
    return registers->valid >> place & 1;
}

static bool read_word(const struct step *step, uint64_t address, uint64_t *value)
{
    return memory_read(step->stack, address, step->cpu->width, value);
}

// Addresses of 64-bit CPUs copy bit 47 into all higher bits.
static bool is_canonical(uint64_t address)
{
    return address <= UINT64_C(0x7fffffffffff) || address >= UINT64_C(0xffff800000000000);
}

static void set_caller(const struct step *step, struct registers *caller, uint64_t ip, uint64_t sp)
{
    *caller = (struct registers){0};
    caller->value[step->cpu->ip] = ip;
    caller->value[step->cpu->sp] = sp;
    caller->valid = UINT32_C(1) << step->cpu->ip | UINT32_C(1) << step->cpu->sp;
}

static void set_caller_bp(const struct step *step, struct registers *caller, uint64_t bp)
{
    caller->value[step->cpu->bp] = bp;
    caller->valid |= UINT32_C(1) << step->cpu->bp;
}

// Rules are split into words and computed word by word, which costs more than to look at a byte.
enum { WORK_PER_RULE_BYTE = 16 };

struct rules_found {
    struct cfi_rules rules;
    struct budget *budget;
};

static bool add_rules(void *context, struct slice rules)
{
    struct rules_found *found = context;
    return budget_work(found->budget, rules.size * WORK_PER_RULE_BYTE) && cfi_add(&found->rules, rules);
}

static bool caller_by_cfi(const struct step *step, struct registers *caller)
{
    if (!is_valid(step->callee, step->cpu->sp)) return false;
    struct module *module = minidump_module_at(step->walker->dump, step->instruction);
    if (!module) return false;
    struct symbols *symbols = symbol_store_find(step->walker->store, step->walker->dump, module);
    if (!symbols) return false;
    struct rules_found found = {{.cpu = step->cpu}, step->walker->budget};
    return symbols_rules(symbols, step->instruction - module->base, add_rules, &found) &&
           cfi_evaluate(&found.rules, step->stack, step->callee, caller);
}

// x86: the saved frame pointer and return address are taken as they are, as rust-minidump does.
static bool caller_by_frame_pointer_x86(const struct step *step, struct registers *caller)
{
    uint64_t bp = step->callee->value[step->cpu->bp], ip, caller_bp;
    if (!is_valid(step->callee, step->cpu->bp) || bp >= UINT32_MAX - 8) return false;
    if (!read_word(step, bp + 4, &ip) || !read_word(step, bp, &caller_bp)) return false;
    set_caller(step, caller, ip, bp + 8);
    set_caller_bp(step, caller, caller_bp);
    return true;
}

// amd64: push rbp; mov rbp, rsp. The saved value must lie further up the stack, the return address be canonical.
static bool caller_by_frame_pointer(const struct step *step, struct registers *caller)
{
    const struct cpu *cpu = step->cpu;
    if (cpu == &cpu_x86) return caller_by_frame_pointer_x86(step, caller);
    uint64_t bp = step->callee->value[cpu->bp], sp = step->callee->value[cpu->sp];
    if (!is_valid(step->callee, cpu->bp) || !is_valid(step->callee, cpu->sp) || bp >= UINT64_MAX - 16) return false;
    unsigned n_steps = step->walker->dump->os == OS_WINDOWS ? WINDOWS_FRAME_POINTER_STEPS : 1;
    for (unsigned i = 0; i < n_steps; i++) {
        uint64_t at = bp + (uint64_t)i * WINDOWS_FRAME_POINTER_STEP;
        uint64_t ip, caller_bp, caller_sp = at + 16, ignored;
        if (!read_word(step, at + 8, &ip) || !read_word(step, at, &caller_bp)) return false;
        if (caller_sp <= bp || caller_bp < caller_sp) continue;
        if (!read_word(step, caller_bp, &ignored)) return false;
        if (!is_canonical(ip) || caller_sp <= sp || !read_word(step, caller_sp, &ignored)) continue;
        set_caller(step, caller, ip, caller_sp);
        set_caller_bp(step, caller, caller_bp);
        return true;
    }
    return false;
}

// Whether a value on the stack may be a return address: it follows an instruction in a module and, where that
// module has symbols, in a function with a name.
static bool may_be_return_address(const struct step *step, uint64_t value)
{
    if (value <= 1 || (step->cpu->width == 8 && !is_canonical(value))) return false;
    struct module *module = minidump_module_at(step->walker->dump, value - 1);
    if (!module) return false;
    struct symbols *symbols = symbol_store_find(step->walker->store, step->walker->dump, module);
    if (!symbols) return true;
    struct function function;
    return symbols_function(symbols, value - 1 - module->base, &function) && function.name.size > 0;
}

// The caller's frame pointer, given where its return address was found: the word before that, when the callee
// saved it there; else the callee's own, when it never touched it and it points further up.
static bool scanned_frame_pointer(const struct step *step, uint64_t slot, uint64_t caller_sp, uint64_t *bp)
{
    const struct cpu *cpu = step->cpu;
    bool x86 = cpu == &cpu_x86, have_bp = is_valid(step->callee, cpu->bp);
    uint64_t callee_bp = step->callee->value[cpu->bp], saved_at = slot - cpu->width, saved, ignored;
    if (!x86 && !have_bp) return false;
    if (!read_word(step, saved_at, &saved)) return false;
    bool looks_saved = saved > slot && saved - saved_at <= MAX_FRAME_BYTES;
    if (looks_saved && (x86 || callee_bp == saved_at)) {
        *bp = saved;
        return read_word(step, saved, &ignored);
    }
    *bp = callee_bp;
    return have_bp && callee_bp >= caller_sp && (!x86 || read_word(step, callee_bp, &ignored));
}

static bool caller_by_scan(const struct step *step, struct registers *caller)
{
    const struct cpu *cpu = step->cpu;
    if (!is_valid(step->callee, cpu->sp)) return false;
    uint64_t sp = step->callee->value[cpu->sp], top = cpu->width == 8 ? UINT64_MAX : UINT32_MAX;
    bool certain = step->trust == TRUST_CONTEXT || step->trust == TRUST_CFI;
    unsigned n_words = certain ? SCAN_WORDS_AFTER_CERTAIN_FRAME : SCAN_WORDS;
    for (unsigned i = 0; i < n_words; i++) {
        uint64_t offset = (uint64_t)i * cpu->width, ip, bp;
        if (offset > top - sp || !read_word(step, sp + offset, &ip)) return false;
        if (!budget_work(step->walker->budget, 16)) return false;
        if (!may_be_return_address(step, ip)) continue;
        uint64_t slot = sp + offset, caller_sp = slot + cpu->width;
        if (caller_sp > top || caller_sp < slot) return false;
        set_caller(step, caller, ip, caller_sp);
        if (i > 0 && scanned_frame_pointer(step, slot, caller_sp, &bp)) set_caller_bp(step, caller, bp);
        return true;
    }
    return false;
}

static void symbolise(struct walker *walker, struct frame *frame)
{
    frame->module = minidump_module_at(walker->dump, frame->instruction);
    if (!frame->module) return;
    struct symbols *symbols = symbol_store_find(walker->store, walker->dump, frame->module);
    struct function function;
    uint64_t base = frame->module->base, address = frame->instruction - base;
    if (!symbols || !symbols_function(symbols, address, &function)) return;
    frame->has_function = true;
    frame->function = function.name;
    frame->function_base = base + function.address;
    symbols_source(symbols, &function, address, &frame->source);
    frame->source.address += base;
}

static struct frame *add_frame(struct walker *walker, struct frames *frames)
{
    if (frames->count == frames->capacity) {
        size_t capacity = frames->capacity ? frames->capacity * 2 : 32;
        struct frame *grown = budget_resize(walker->budget, frames->items, frames->capacity, capacity, sizeof *grown);
        if (!grown) return NULL;
        frames->items = grown;
        frames->capacity = capacity;
    }
    struct frame *frame = &frames->items[frames->count++];
    *frame = (struct frame){0};
    return frame;
}

bool walk_stack(struct walker *walker, const struct registers *context, const struct memory *stack,
                struct frames *frames)
{
    const struct cpu *cpu = walker->dump->cpu;
    struct registers registers = *context;
    uint64_t instruction = context->value[cpu->ip];
    enum trust trust = TRUST_CONTEXT;
    size_t first = frames->count;
    while (frames->count - first < WALK_MAX_FRAMES) {
        struct frame *frame = add_frame(walker, frames);
        if (!frame) return false;
        frame->instruction = instruction;
        frame->trust = trust;
        symbolise(walker, frame);
        if (!stack) return true;

        struct registers caller;
        struct step step = {walker, cpu, stack, &registers, instruction, trust};
        if (caller_by_cfi(&step, &caller)) trust = TRUST_CFI;
        else if (caller_by_frame_pointer(&step, &caller)) trust = TRUST_FRAME_POINTER;
        else if (caller_by_scan(&step, &caller)) trust = TRUST_SCAN;
        else return true;
        if (caller.value[cpu->ip] < FIRST_PAGE || caller.value[cpu->sp] <= registers.value[cpu->sp]) return true;
        registers = caller;
        instruction = caller.value[cpu->ip] - 1;
    }
    return false;
}

void frames_free(struct frames *frames, struct budget *budget)
{
    budget_free(budget, frames->items, frames->capacity, sizeof *frames->items);
    *frames = (struct frames){0};
}
