// Where the records of a Breakpad symbol file are, found in one pass that reads only the start of each line.
//
// A 4 MB file holds some 100 000 line records and the walk of a dump needs a dozen of them, so the pass looks for
// the few kinds of line that carry an address range (FUNC, PUBLIC, STACK CFI INIT) or a file name (FILE); the
// records between them are read when a frame asks. The records need not be sorted.
#ifndef SYMBOL_INDEX_H
#define SYMBOL_INDEX_H

#include "ranges.h"
#include "reader.h"

struct symbol_index {
    struct ranges functions;  // value: offset of the FUNC line
    struct ranges rules;      // value: offset of the STACK CFI INIT line
    struct ranges publics;    // start = end = address; value: offset of the PUBLIC line; sorted, all kept
    struct ranges files;      // start = end = number; value: offset of the FILE line; sorted, all kept
};

// False when one of these lines is malformed, when a MODULE line stands anywhere but first, or when the text does
// not end in a newline: the whole file is then corrupt, as it is for rust-minidump. Other lines are not checked.
bool symbol_index_build(struct symbol_index *index, struct budget *budget, struct slice text);

// Collects the INLINE_ORIGIN lines (number -> offset): a second pass, made only for a frame with inlined calls.
bool symbol_index_origins(struct ranges *origins, struct budget *budget, struct slice text);

void symbol_index_free(struct symbol_index *index, struct budget *budget);

#endif
