// Reading the fields of one line of a Breakpad symbol file, left to right.
//
// Each take_ function moves the cursor past what it read, or returns false and leaves it anywhere: a line that
// fails once is given up. The limits (8 or 16 hex digits, 10 decimal digits) are those of rust-minidump.
#ifndef SYMBOL_TEXT_H
#define SYMBOL_TEXT_H

#include "reader.h"

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static inline int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    uint8_t lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static inline bool take_hex(struct cursor *cursor, unsigned max_digits, uint64_t *value)
{
    uint64_t sum = 0;
    unsigned digits = 0;
    for (; cursor->at < cursor->end && digits < max_digits; cursor->at++, digits++) {
        int digit = hex_digit(*cursor->at);
        if (digit < 0) break;
        sum = sum << 4 | (unsigned)digit;
    }
    *value = sum;
    return digits > 0;
}

static inline bool take_decimal(struct cursor *cursor, uint32_t *value)
{
    uint64_t sum = 0;
    unsigned digits = 0;
    for (; cursor->at < cursor->end && digits < 10; cursor->at++, digits++) {
        if (*cursor->at < '0' || *cursor->at > '9') break;
        sum = sum * 10 + (unsigned)(*cursor->at - '0');
    }
    *value = (uint32_t)sum;
    return digits > 0 && sum <= UINT32_MAX;
}

// One space or tab, or more.
static inline bool take_space(struct cursor *cursor)
{
    const uint8_t *from = cursor->at;
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t')) cursor->at++;
    return cursor->at > from;
}

static inline bool take_word(struct cursor *cursor, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < size || memcmp(cursor->at, word, size) != 0) return false;
    cursor->at += size;
    return true;
}

// The end of the line: a newline, with any number of carriage returns before it (dump_syms on Windows writes two).
static inline bool take_newline(struct cursor *cursor)
{
    while (cursor->at < cursor->end && *cursor->at == '\r') cursor->at++;
    if (cursor->at == cursor->end || *cursor->at != '\n') return false;
    cursor->at++;
    return true;
}

// What is left of the line, and its end.
static inline bool take_rest(struct cursor *cursor, struct slice *rest)
{
    const uint8_t *newline = cursor->at == cursor->end
                                 ? NULL
                                 : memchr(cursor->at, '\n', (size_t)(cursor->end - cursor->at));
    if (!newline) return false;
    const uint8_t *stop = memchr(cursor->at, '\r', (size_t)(newline - cursor->at));
    if (!stop) stop = newline;
    *rest = (struct slice){cursor->at, (size_t)(stop - cursor->at)};
    cursor->at = stop;
    return take_newline(cursor);
}

// The optional "m" mark of FUNC and PUBLIC ("several symbols share this address"), which nothing here needs.
static inline bool take_multiple_mark(struct cursor *cursor)
{
    if (cursor->end - cursor->at >= 2 && cursor->at[0] == 'm' && (cursor->at[1] == ' ' || cursor->at[1] == '\t')) {
        cursor->at++;
        return take_space(cursor);
    }
    return true;
}

#endif
