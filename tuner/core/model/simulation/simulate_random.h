// Random numbers that are the same in Python: variates.py explains them.
#ifndef TUNER_SIMULATE_RANDOM_H
#define TUNER_SIMULATE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { N_DRAWN = 256 };

static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t rotated(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

// log(x) for normal numbers above 0. Without a branch, and without a conversion of whole numbers: those two keep
// compilers from vector instructions.
static inline double natural_log(double x)
{
    uint64_t bits = bits_of(x);
    double mantissa = double_of((bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3fe0000000000000));
    double exponent = double_of(bits >> 52 | UINT64_C(0x4330000000000000)) - (0x1p52 + 1022.0);
    bool is_small = mantissa < 0.7071067811865476;
    mantissa += is_small ? mantissa : 0.0;
    exponent -= is_small ? 1.0 : 0.0;
    double s = (mantissa - 1.0) / (mantissa + 1.0);
    double squared = s * s;
    double series = (1.0 / 19) * squared;
    series = (series + 1.0 / 17) * squared;
    series = (series + 1.0 / 15) * squared;
    series = (series + 1.0 / 13) * squared;
    series = (series + 1.0 / 11) * squared;
    series = (series + 1.0 / 9) * squared;
    series = (series + 1.0 / 7) * squared;
    series = (series + 1.0 / 5) * squared;
    series = (series + 1.0 / 3) * squared;
    return exponent * 0.6931471805599453 + (s + s) * (1.0 + series);
}

struct exponentials {
    uint64_t state[4];
    size_t next;
    double drawn[N_DRAWN];  // ahead, in a loop that the processor can overlap
};

static void seed_exponentials(struct exponentials *of, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t mixed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        of->state[i] = mixed ^ mixed >> 31;
    }
    of->next = N_DRAWN;
}

static __attribute__((noinline)) void draw_exponentials(struct exponentials *of)
{
    uint64_t a = of->state[0], b = of->state[1], c = of->state[2], d = of->state[3];
    for (int i = 0; i < N_DRAWN; i++) {
        uint64_t word = rotated(b * 5, 7) * 9, shifted = b << 17;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= shifted;
        d = rotated(d, 45);
        of->drawn[i] = 2.0 - double_of(word >> 12 | UINT64_C(0x3ff0000000000000));  // 1 - u: 2 less [1, 2)
    }
    of->state[0] = a, of->state[1] = b, of->state[2] = c, of->state[3] = d;
    for (int i = 0; i < N_DRAWN; i++)
        of->drawn[i] = -natural_log(of->drawn[i]);
    of->next = 0;
}

static inline double next_exponential(struct exponentials *of)
{
    if (of->next == N_DRAWN)
        draw_exponentials(of);
    return of->drawn[of->next++];
}

#endif
