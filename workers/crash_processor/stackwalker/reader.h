// Bounds-checked reading of little-endian bytes. Nothing else in this program turns file bytes into numbers.
#ifndef READER_H
#define READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A piece of a file (or of a string) that somebody else owns.
struct slice {
    const uint8_t *data;
    size_t size;
};

// The part of `all` at `at`, `size` bytes long; false when it is not all there.
static inline bool slice_sub(struct slice all, uint64_t at, uint64_t size, struct slice *part)
{
    if (at > all.size || size > all.size - at) return false;
    part->data = all.data + at;
    part->size = (size_t)size;
    return true;
}

static inline uint64_t little_endian(const uint8_t *bytes, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static inline bool read_u64(struct slice all, uint64_t at, uint64_t *value)
{
    struct slice part;
    if (!slice_sub(all, at, 8, &part)) return false;
    *value = little_endian(part.data, 8);
    return true;
}

static inline bool read_u32(struct slice all, uint64_t at, uint32_t *value)
{
    struct slice part;
    if (!slice_sub(all, at, 4, &part)) return false;
    *value = (uint32_t)little_endian(part.data, 4);
    return true;
}

// For records whose size was checked as a whole before: the field at `at`, which must lie within the slice.
static inline uint16_t u16_at(struct slice record, size_t at)
{
    return (uint16_t)little_endian(record.data + at, 2);
}

static inline uint32_t u32_at(struct slice record, size_t at)
{
    return (uint32_t)little_endian(record.data + at, 4);
}

static inline uint64_t u64_at(struct slice record, size_t at)
{
    return little_endian(record.data + at, 8);
}

static inline bool slice_is(struct slice text, const char *word)
{
    size_t size = strlen(word);
    return text.size == size && memcmp(text.data, word, size) == 0;
}

static inline bool slices_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

// Order by bytes, the shorter first.
static inline int compare_slices(struct slice a, struct slice b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

#endif
