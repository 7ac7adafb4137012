// Unwinding one thread's stack: call frame information, else frame pointer, else a scan of the stack.
//
// The rules are rust-minidump's (and so Breakpad's), followed frame for frame.
#ifndef WALK_H
#define WALK_H

#include "symbol_store.h"

enum { WALK_MAX_FRAMES = 1024 };

enum trust { TRUST_CONTEXT, TRUST_CFI, TRUST_FRAME_POINTER, TRUST_SCAN };

const char *trust_name(enum trust trust);

struct frame {
    uint64_t instruction;  // a caller's is one before its return address, so that it lies in the call
    struct module *module;  // NULL outside all modules
    enum trust trust;
    bool has_function;
    struct slice function;
    uint64_t function_base;
    struct source source;  // its address is absolute
};

struct frames {
    struct frame *items;
    size_t count;
    size_t capacity;
};

struct walker {
    struct minidump *dump;
    struct symbol_store *store;
    struct budget *budget;
};

// Appends the frames of a stack that begins with these registers. `stack` may be NULL: then there is one frame.
// False when a limit, of frames or of memory, ended it.
bool walk_stack(struct walker *walker, const struct registers *context, const struct memory *stack,
                struct frames *frames);

void frames_free(struct frames *frames, struct budget *budget);

#endif
