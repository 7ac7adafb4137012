// What a symbol file says about an address: function, source line, inlined calls, unwind rules.
//
// All addresses are relative to the module's base. A slice in an answer points into the symbol file's text.
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include "symbol_index.h"
#include "symbol_text.h"

struct inline_call {
    struct slice function;
    struct slice file;  // data is NULL when unknown
    uint32_t line;      // 0 when unknown
};

struct function {
    struct slice name;
    uint64_t address;
    uint64_t offset;  // of its FUNC line in the text
    bool has_body;    // a FUNC with line records, not a PUBLIC
};

struct source {
    struct slice file;  // data is NULL when unknown; the line is then unknown as well
    uint32_t line;
    uint64_t address;  // where that line begins
    struct inline_call *inlines;  // innermost first
    size_t n_inlines;
};

enum { SYMBOLS_BODY_BUCKETS = 64 };

struct symbols {
    struct slice text;
    struct budget *budget;
    struct symbol_index index;
    bool corrupt;
    bool has_origins;
    struct ranges origins;
    struct body *bodies[SYMBOLS_BODY_BUCKETS];  // functions whose records were read
};

// From a line's offset to the end of the text.
static inline struct cursor symbols_cursor(const struct symbols *symbols, uint64_t offset)
{
    return (struct cursor){symbols->text.data + offset, symbols->text.data + symbols->text.size};
}

// Reads the index; sets `corrupt` when that fails.
void symbols_init(struct symbols *symbols, struct budget *budget, struct slice text);

void symbols_free(struct symbols *symbols);

// The FUNC that holds the address, or the PUBLIC before it when no FUNC lies between.
bool symbols_function(const struct symbols *symbols, uint64_t address, struct function *function);

// File and line of the outermost function at this address, and the calls inlined there.
void symbols_source(struct symbols *symbols, const struct function *function, uint64_t address,
                    struct source *source);

// In symbol_rules.c: calls `use` with the rules that hold at this address: the STACK CFI INIT line's, then each delta's, in the
// order in which they apply. False when there are none or `use` returned false.
typedef bool (*rules_user)(void *context, struct slice rules);
bool symbols_rules(const struct symbols *symbols, uint64_t address, rules_user use, void *context);

#endif
