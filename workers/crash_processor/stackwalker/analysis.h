// From a dump to what a report says: every thread's frames, and which thread crashed.
#ifndef ANALYSIS_H
#define ANALYSIS_H

#include "walk.h"

// Frames of all threads together; when they are used up, the threads that are left get no frames.
enum { ANALYSIS_MAX_FRAMES = 1 << 18 };

struct stack {
    size_t first_frame, n_frames;
    bool skipped;  // the thread that wrote the dump
    bool has_last_error;
    uint32_t last_error;
    struct registers context;  // of its first frame
};

struct analysis {
    struct budget budget;
    struct minidump dump;
    struct symbol_store store;
    struct frames frames;
    struct stack *stacks;  // one for each thread of the dump
    bool has_crashing_thread;
    size_t crashing_thread;
    bool cut_short;  // the budget or a limit ended the walk
};

// NULL, or what is wrong with the dump. analysis_free is due in both cases. `work` is usually BUDGET_MAX_WORK.
const char *analyse(struct analysis *analysis, struct slice file, struct symbol_source source, uint64_t work);

void analysis_free(struct analysis *analysis);

#endif
