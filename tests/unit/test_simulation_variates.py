"""Random numbers of the simulation: the published generators, and a logarithm of our own."""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, log, nextafter, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.model.simulation.tally import Exponentials, Xoshiro, natural_log, splitmix


def test_splitmix64_gives_its_published_words() -> None:
    assert splitmix(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_xoshiro256_gives_its_published_words() -> None:
    words = Xoshiro([1, 2, 3, 4])

    assert [words.next() for _ in range(4)] == [11520, 0, 1509978240, 1215971899390074240]


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_the_logarithm_is_that_of_the_c_library_to_a_few_units(x: float) -> None:
    assert natural_log(x) == pytest.approx(log(x), rel=1e-15, abs=1e-300)


def test_the_logarithm_is_as_exact_next_to_1() -> None:
    below = nextafter(1.0, 0.0)

    assert natural_log(1.0) == 0.0
    assert natural_log(below) == pytest.approx(log(below), rel=1e-15)
    assert natural_log(2.0**-53) == pytest.approx(log(2.0**-53), rel=1e-15)


def test_variates_are_exponential_with_mean_1() -> None:
    n = 50_000
    exponentials = Exponentials(3)
    drawn = sorted(exponentials.next() for _ in range(n))
    mean = sum(drawn) / n
    furthest = max(abs((k + 0.5) / n - (1 - exp(-x))) for k, x in enumerate(drawn))

    assert 0 <= drawn[0] <= drawn[-1] < inf
    assert abs(mean - 1) < 3.3 / sqrt(n)  # one time in a thousand
    assert furthest < 1.95 / sqrt(n)  # Kolmogorov and Smirnov, one time in a thousand


def test_successive_variates_do_not_depend_on_each_other() -> None:
    n = 50_000
    exponentials = Exponentials(4)
    drawn = [exponentials.next() - 1 for _ in range(n)]
    correlation = sum(one * two for one, two in pairwise(drawn)) / n

    assert abs(correlation) < 3.3 / sqrt(n)


def test_neighbouring_seeds_give_other_numbers() -> None:
    firsts = {Exponentials(seed).next() for seed in range(1000)}

    assert len(firsts) == 1000
