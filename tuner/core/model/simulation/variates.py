"""Random numbers that come out the same, to the last bit, in Python and in C, on every machine.

Only operations that IEEE 754 defines exactly are used (no libm): `variates.py` and `simulate.c` say the same.
Source: Blackman & Vigna, Scrambled linear pseudorandom number generators (2021): xoshiro256**, splitmix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

_MASK = 2**64 - 1
_SQRT_HALF = 0.7071067811865476
_LN_2 = 0.6931471805599453
#: 1/19 ... 1/5, 1/3: artanh(s) = s (1 + s^2/3 + s^4/5 + ...); |s| <= 0.172: what is left out is below 1e-16.
_SERIES = tuple(1 / n for n in range(19, 1, -2))


class Exponentials:
    """Exponential variates of mean 1, by -log(1 - u) of xoshiro256**'s u."""

    def __init__(self, seed: int) -> None:
        self._words = Xoshiro(splitmix(seed, 4))

    def next(self) -> float:
        """The next one."""
        return -natural_log(1.0 - (self._words.next() >> 12) * 2.0**-52)


class Xoshiro:
    """xoshiro256**: random words of 64 bits, from four that are not all 0."""

    def __init__(self, state: Sequence[int]) -> None:
        self._state = tuple(state)

    def next(self) -> int:
        """The next one."""
        a, b, c, d = self._state
        word = _rotate(b * 5 & _MASK, 7) * 9 & _MASK
        c ^= a
        d ^= b
        self._state = (a ^ d, b ^ c, c ^ (b << 17 & _MASK), _rotate(d, 45))
        return word


def splitmix(seed: int, n: int) -> list[int]:
    """The first *n* words of splitmix64: a state that differs in half of its bits from that of seed + 1."""
    words = []
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        words.append(mixed ^ (mixed >> 31))
    return words


def natural_log(x: float) -> float:
    """log(x) for normal numbers above 0, to a few units in the last place; exact operations only."""
    mantissa, exponent = frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa += mantissa
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    squared = s * s
    series = 0.0
    for term in _SERIES:
        series = (series + term) * squared
    return exponent * _LN_2 + (s + s) * (1.0 + series)


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK
