// Evaluating STACK CFI rules: "REG: EXPRESSION" lists that say how to find a caller's registers.
//
// Expressions are postfix: + - * / %, @ (align down), ^ (read memory), $register, .cfa, .undef, decimal numbers.
#ifndef CFI_H
#define CFI_H

#include "cpu.h"

struct memory {
    uint64_t base;
    struct slice bytes;
};

// The `width`-byte value at an address; false when it is not all in this memory.
bool memory_read(const struct memory *memory, uint64_t address, unsigned width, uint64_t *value);

enum { CFI_SLOTS = CPU_MAX_REGISTERS + 2, CFI_STACK_DEPTH = 64 };

// The last expression seen for each register, for the canonical frame address, and for the return address.
struct cfi_rules {
    const struct cpu *cpu;
    struct slice expressions[CFI_SLOTS];  // data is NULL where there is none
};

// Adds the rules of one line; a later one replaces an earlier one for the same register. False: malformed.
bool cfi_add(struct cfi_rules *rules, struct slice line);

// Computes the caller's registers. Callee-saved registers without a rule keep their values. False when .cfa or
// .ra are missing or cannot be computed; another register that cannot is merely unknown.
bool cfi_evaluate(const struct cfi_rules *rules, const struct memory *memory, const struct registers *callee,
                  struct registers *caller);

#endif
