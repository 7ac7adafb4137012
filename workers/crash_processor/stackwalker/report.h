// The two ways to print an analysis.
#ifndef REPORT_H
#define REPORT_H

#include "analysis.h"
#include "output.h"

// One JSON object on one line, with rust-minidump's field names; what is not known here is null.
void report_json(struct output *output, const struct analysis *analysis);

// In report_threads.c, for report_json: the fields that tell of threads, and an address as wide as the CPU's pointers.
void report_threads(struct output *output, const struct analysis *analysis);
void report_address(struct output *output, const struct analysis *analysis, uint64_t value);

// Breakpad's machine-readable text: OS|, CPU|, Crash|, Module| lines, an empty line, then one line a frame:
// thread|frame|module|function|file|line|offset
void report_pipe(struct output *output, const struct analysis *analysis);

#endif
