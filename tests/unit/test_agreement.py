"""When two probes that watched the same window disagree."""

from __future__ import annotations

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.study.launch.cross_check import disagreement

from ..wording import wording

LAYOUT = Layout(2, 3)  # six items in hand at most
NAMES = ("probe a", "cross_check b")


def edges(n_done: int, begin_s: float = 0.0, length_s: float = 60.0) -> tuple[Reading, Reading]:
    return Reading(begin_s, 500, 3), Reading(begin_s + length_s, 500 + n_done, 90)


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        (1000, 1000, True),
        (0, 6, True),  # in hand
        (0, 7, False),
        (1000, 974, True),  # 2 % of 1000, and six
        (1000, 973, False),
        (973, 1000, False),
        (1000, 0, False),
    ],
)
def test_two_counts_agree_within_a_share_and_what_is_in_hand(first: int, second: int, agree: bool) -> None:
    assert (disagreement(LAYOUT, edges(first), edges(second), 0.02, NAMES) == ()) is agree


def test_probes_that_look_at_other_moments_are_compared_by_the_second() -> None:
    late = edges(1010, begin_s=0.2, length_s=60.6)

    assert disagreement(LAYOUT, edges(1000), late, 0.0, NAMES) == ()
    assert disagreement(LAYOUT, edges(1000), edges(1010), 0.0, NAMES) != ()


def test_both_counts_are_reported_with_what_was_allowed() -> None:
    (reason,) = disagreement(LAYOUT, edges(1000), edges(900), 0.02, NAMES)

    assert reason.slug == "probes-disagree"
    assert reason.detail == (wording("probes.cross-check-differs"))


def test_a_window_without_length_is_not_compared() -> None:
    assert disagreement(LAYOUT, edges(1, length_s=0.0), edges(9), 0.02, NAMES) == ()
