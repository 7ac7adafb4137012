// The few lines of a test framework these tests need: a test is a function, a check names what failed and where.
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "reader.h"

static int check_failures;

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            check_failures++;                                                         \
        }                                                                             \
    } while (0)

#define CHECK_NUMBER(actual, expected)                                                                         \
    do {                                                                                                       \
        uint64_t got_ = (uint64_t)(actual), want_ = (uint64_t)(expected);                                      \
        if (got_ != want_) {                                                                                   \
            fprintf(stderr, "%s:%d: %s is %" PRIu64 ", not %" PRIu64 "\n", __FILE__, __LINE__, #actual, got_, want_); \
            check_failures++;                                                                                  \
        }                                                                                                      \
    } while (0)

#define CHECK_TEXT(actual, expected)                                                                  \
    do {                                                                                              \
        struct slice got_ = (actual);                                                                 \
        if (!slice_is(got_, expected)) {                                                              \
            fprintf(stderr, "%s:%d: %s is \"%.*s\", not \"%s\"\n", __FILE__, __LINE__, #actual,       \
                    (int)got_.size, got_.data ? (const char *)got_.data : "", expected);              \
            check_failures++;                                                                         \
        }                                                                                             \
    } while (0)

#define CHECK_DONE() return check_failures ? EXIT_FAILURE : EXIT_SUCCESS

// A copy on the heap without a spare byte, so that AddressSanitizer sees a read one byte too far.
static inline struct slice heap_slice(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, bytes, size);
    return (struct slice){copy, size};
}

static inline struct slice heap_text(const char *text)
{
    return heap_slice(text, strlen(text));
}

static inline void heap_free(struct slice slice)
{
    free((void *)(uintptr_t)slice.data);
}

#endif
