// A map from address ranges to numbers, built from ranges that may overlap: modules, memory, functions, lines.
//
// Where two ranges overlap, the one that starts first stays and the other is dropped whole; of two with one start
// the shorter stays. This is rust-minidump's rule, and crash reports depend on it where modules overlap.
#ifndef RANGES_H
#define RANGES_H

#include "budget.h"

struct range {
    uint64_t start;
    uint64_t end;  // the last address in the range
    uint64_t value;
};

struct ranges {
    struct range *items;
    size_t count;
    size_t capacity;
    bool unsorted;  // an item was added that starts before the one before it
};

// Adds a range as it is; false when memory is out.
bool ranges_push(struct ranges *ranges, struct budget *budget, uint64_t start, uint64_t end, uint64_t value);

// Adds the range of `size` bytes at `start`, or nothing when it is empty or wraps around.
bool ranges_add(struct ranges *ranges, struct budget *budget, uint64_t start, uint64_t size, uint64_t value);

// Sorts by start, then end; equal ranges keep the order in which they came. False when memory is out.
bool ranges_sort(struct ranges *ranges, struct budget *budget);

// Sorts, then drops what overlaps. Needed before ranges_find.
bool ranges_finish(struct ranges *ranges, struct budget *budget);

// The range that holds `address`, or NULL.
const struct range *ranges_find(const struct ranges *ranges, uint64_t address);

// The last range that starts at or before `address`, or NULL.
const struct range *ranges_floor(const struct ranges *ranges, uint64_t address);

void ranges_free(struct ranges *ranges, struct budget *budget);

#endif
