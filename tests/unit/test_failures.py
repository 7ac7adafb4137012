"""What a ranking says of items that failed."""

from __future__ import annotations

import pytest

from tuner.core.domain.layout import parse_layout
from tuner.core.windows.launch_sums import LaunchTally, describe_failures

from ..wording import wording


def launches(*counts: tuple[str, int, int]) -> list[LaunchTally]:
    return [
        LaunchTally(parse_layout(layout), ("box", n), n_done=n_done, n_failed=n_failed)
        for n, (layout, n_done, n_failed) in enumerate(counts)
    ]


def test_the_share_is_of_all_that_ended_in_all_launches_of_a_layout() -> None:
    (said,) = describe_failures(launches(("2x2", 10, 30), ("2x2", 50, 10), ("1x4", 100, 0)))

    assert said == wording("rank.some-failed-in-one")


def test_many_layouts_are_reported_by_their_least_and_their_most() -> None:
    (said,) = describe_failures(launches(*((f"1x{n}", 100 - n, n) for n in (2, 4, 8, 16))))

    assert said == wording("rank.some-failed-in-many")


@pytest.mark.parametrize(("n_done", "n_failed"), [(100, 0), (1000, 9), (0, 0)])
def test_few_that_failed_go_without_saying(n_done: int, n_failed: int) -> None:
    assert describe_failures(launches(("2x2", n_done, n_failed))) == ()
