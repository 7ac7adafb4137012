// Mutations that keep a dump a dump: inside one stream, of one entry of the directory, of one pointer.
//
// Plain mutations move bytes, and with them everything that the directory points to: few such inputs come past the
// list of threads. Half of the inputs are still mutated plainly.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { HEADER = 32, ENTRY = 12, MAX_STREAMS = 64 };

static const uint32_t stream_types[] = {
    3, 4, 5, 6, 7, 9, 14, 15, 24, 0x47670001, 0x47670003, 0x47670004, 0x47670005, 0x47670009, 0x4d7a0003,
};

static uint32_t word_at(const uint8_t *data)
{
    uint32_t word;
    memcpy(&word, data, 4);
    return word;
}

static void put_word(uint8_t *data, uint32_t word)
{
    memcpy(data, &word, 4);
}

static uint32_t below(unsigned *seed, size_t limit)
{
    *seed = *seed * 1103515245u + 12345u;
    return limit ? (*seed >> 8) % (uint32_t)limit : 0;
}

// Mutates up to 64 bytes where they are.
static void mutate_inside(uint8_t *at, size_t size, unsigned *seed)
{
    uint8_t window[64];
    size_t start = size > sizeof window ? below(seed, size - sizeof window) : 0;
    size_t length = size - start < sizeof window ? size - start : sizeof window;
    memcpy(window, at + start, length);
    size_t mutated = LLVMFuzzerMutate(window, length, length);
    memcpy(at + start, window, mutated);
}

// A number that matters in this dump: a place, a size, the edge of a type.
static uint32_t telling_number(const uint8_t *data, size_t size, const uint8_t *directory, uint32_t n, unsigned *seed)
{
    static const uint32_t edges[] = {0, 1, 2, 4, 48, 108, 168, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
    switch (below(seed, 5)) {
    case 0: return edges[below(seed, sizeof edges / sizeof *edges)];
    case 1: return (uint32_t)size - below(seed, 64);
    case 2: return word_at(directory + below(seed, n) * ENTRY + 8);
    case 3: return word_at(directory + below(seed, n) * ENTRY + 4);
    default: return word_at(data + (below(seed, size - 4) & ~3u));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    if (below(&seed, 2) || size < HEADER || memcmp(data, "MDMP", 4) != 0)
        return LLVMFuzzerMutate(data, size, max_size);
    uint32_t n = word_at(data + 8), place = word_at(data + 12);
    if (n == 0 || n > MAX_STREAMS || place > size || size - place < n * (size_t)ENTRY)
        return LLVMFuzzerMutate(data, size, max_size);
    uint8_t *directory = data + place, *entry = directory + below(&seed, n) * ENTRY;
    uint32_t length = word_at(entry + 4), at = word_at(entry + 8);
    bool inside = at <= size && length <= size - at && length >= 4;
    switch (below(&seed, 8)) {
    case 0: put_word(entry, stream_types[below(&seed, sizeof stream_types / sizeof *stream_types)]); return size;
    case 1: put_word(entry + 4, length + below(&seed, 33) - 16); return size;
    case 2: put_word(entry + 8, telling_number(data, size, directory, n, &seed)); return size;
    case 3: {  // eight bytes from elsewhere: an address meets another place that takes addresses
        size_t from = below(&seed, size - 8) & ~3u, to = below(&seed, size - 8) & ~3u;
        memmove(data + to, data + from, 8);
        return size;
    }
    case 4:
    case 5:
        if (inside) put_word(data + at + (below(&seed, length - 3) & ~3u), telling_number(data, size, directory, n, &seed));
        return size;
    default:
        if (inside) mutate_inside(data + at, length, &seed);
        return size;
    }
}
