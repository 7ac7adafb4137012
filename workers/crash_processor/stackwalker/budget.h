// How much memory and work one pass over a dump may take, whatever the dump and its symbols say.
//
// Every length in a dump or symbol file is checked against the file, but a small file can still ask for a lot:
// thousands of threads that share one stack, a function of a million line records, rules that touch megabytes.
// All memory is asked for here, and all loops over untrusted text report here; both stop at a fixed amount.
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_MAX_BYTES (UINT64_C(1) << 30)  // the index of a 1 GB symbol file needs some 100 MB
#define BUDGET_MAX_WORK (UINT64_C(1) << 31)   // bytes or words looked at outside the one scan of a symbol file

struct budget {
    uint64_t bytes_left;
    uint64_t work_left;
    struct block *blocks;  // what budget_alloc gave out, newest first
};

void budget_init(struct budget *budget, uint64_t work);

// Zeroed memory that lives until budget_release, or NULL.
void *budget_alloc(struct budget *budget, size_t size);

// Like reallocarray, counted; `block` must come from here. On failure the old block stays and NULL is returned.
void *budget_resize(struct budget *budget, void *block, size_t old_count, size_t count, size_t size);

void budget_free(struct budget *budget, void *block, size_t count, size_t size);

// Frees all that budget_alloc gave out.
void budget_release(struct budget *budget);

// Takes `amount` of work; false when there is no more.
bool budget_work(struct budget *budget, uint64_t amount);

#endif
