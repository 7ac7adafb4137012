"""What a probe that asks others does when they are slow, silent, restarted or wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.polled import (
    MOST_FAILURES,
    MOST_FAILURES_AT_FIRST,
    MOST_FALLS,
    Counts,
    PolledCounting,
    polling,
)
from tuner.core.domain.window import Reading
from tuner.core.errors import MeasurementError

from ..wording import end_of, key_of, start_of, wording

PATIENCE_S = 30.0


class Answers:
    """Gives one answer after the other; the last one for ever."""

    def __init__(self, *answers: Counts | Exception) -> None:
        self._answers = list(answers)

    def __call__(self) -> Counts:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def asked(
    ask: Callable[[], Counts], *, failed_included: bool = False
) -> Iterator[tuple[PolledCounting, list[tuple[str, str]]]]:
    warned: list[tuple[str, str]] = []
    counting = PolledCounting(
        SystemClock(),
        ask,
        "it",
        lambda slug, text: warned.append((slug, text)),
        failed_included=failed_included,
    )
    with polling(counting):
        yield counting, warned


def read_until(counting: PolledCounting, enough: Callable[[Reading], bool]) -> Reading:
    deadline_s = time.monotonic() + PATIENCE_S
    while not enough(reading := counting.read()):
        assert time.monotonic() < deadline_s, f"still {reading}"
    return reading


def read_until_it_fails(counting: PolledCounting) -> MeasurementError:
    with pytest.raises(MeasurementError) as caught:
        read_until(counting, lambda _: False)
    return caught.value


SILENT = MeasurementError("no answer")


def test_a_slow_answer_gives_the_last_reading_again_with_its_own_time() -> None:
    may_answer = threading.Event()
    asked_at_s: list[float] = []

    def slow_the_second_time() -> Counts:
        asked_at_s.append(time.monotonic())
        if len(asked_at_s) == 2:
            assert may_answer.wait(PATIENCE_S)
        return Counts({"a": len(asked_at_s)})

    with asked(slow_the_second_time) as (counting, _):
        before = counting.read()
        read_until(counting, lambda _: len(asked_at_s) == 2)  # so the first answer was taken
        while_slow = [counting.read() for _ in range(2)]
        may_answer.set()
        later = read_until(counting, lambda reading: reading.n_done_total > 0)

    assert while_slow[0] == while_slow[1]
    assert before.at_s <= while_slow[0].at_s <= asked_at_s[1]
    assert later.at_s > while_slow[0].at_s


def test_one_failed_answer_is_a_gap_and_no_error() -> None:
    with asked(Answers(Counts({"a": 5}), SILENT, Counts({"a": 9}))) as (counting, warned):
        reading = read_until(counting, lambda reading: reading.n_done_total == 4)

    assert reading.n_done_total == 4
    assert warned == []


def test_in_a_gap_the_last_reading_is_given_again_with_its_own_time() -> None:
    with asked(Answers(Counts({"a": 5}), Counts({"a": 9}), SILENT)) as (counting, _):
        before = read_until(counting, lambda reading: reading.n_done_total == 4)
        in_the_gap = [counting.read() for _ in range(MOST_FAILURES - 1)]

    assert in_the_gap == [before] * (MOST_FAILURES - 1)


def test_a_failing_look_says_why_at_once_and_a_good_one_says_nothing() -> None:
    said: list[Counts | Exception] = [SILENT]
    why = wording("probes.it-did-not-get-its-count")

    with asked(lambda: Answers(said[-1])()) as (counting, _):
        read_until(counting, lambda reading: reading.problem == why)
        said.append(Counts({"": 7}))
        read_until(counting, lambda reading: not reading.problem)
        said.append(SILENT)
        read_until(counting, lambda reading: reading.problem == why)


def test_an_answer_that_takes_long_is_said_to_be_missing() -> None:
    may_answer = threading.Event()

    def slow() -> Counts:
        may_answer.wait(PATIENCE_S)
        return Counts({"": 7})

    with asked(slow) as (counting, _):
        assert counting.read().problem == wording("probes.it-has-not-answered-yet")
        may_answer.set()
        read_until(counting, lambda reading: not reading.problem)


def test_so_many_failures_in_a_row_are_an_error_that_says_why() -> None:
    with asked(Answers(Counts({"a": 5}), SILENT)) as (counting, _):
        error = read_until_it_fails(counting)

    assert wording("probes.did-not-get-its-count") in start_of(error.problem)
    assert wording("probes.times-in-a-row", n=MOST_FAILURES) + ": no answer" in end_of(error.problem)


def test_a_service_that_just_started_has_longer_to_answer_and_counts_0_until_then() -> None:
    failures = [SILENT] * (MOST_FAILURES_AT_FIRST - 1)
    with asked(Answers(*failures, Counts({"a": 70}), Counts({"a": 71}))) as (counting, _):
        first = counting.read()
        reading = read_until(counting, lambda reading: reading.n_done_total > 0)

    assert first.n_done_total == 0
    assert reading.n_done_total == 1


def test_who_never_answers_is_an_error_in_the_end() -> None:
    with asked(Answers(SILENT)) as (counting, _):
        error = read_until_it_fails(counting)

    assert wording("probes.times-in-a-row", n=MOST_FAILURES_AT_FIRST) in error.problem


def test_a_count_that_begins_anew_is_reported_once_and_nothing_is_lost() -> None:
    answers = Answers(Counts({"a": 100}), Counts({"a": 110}), Counts({"a": 3}))
    with asked(answers) as (counting, warned):
        read_until(counting, lambda reading: reading.n_done_total == 13)
        counting.read()

    assert warned == [("count-restarted", wording("probes.began-to-count-anew"))]


def test_a_count_that_keeps_falling_is_no_total() -> None:
    turns = [Counts({"a": 10}), Counts({"a": 5})] * (MOST_FALLS + 1)
    with asked(Answers(*turns)) as (counting, _):
        error = read_until_it_fails(counting)

    assert wording("probes.fell-in-launch", value=MOST_FALLS + 1) in error.problem


def test_failed_items_that_are_among_all_are_not_done_and_done_never_falls() -> None:
    first, second = Counts({"all": 0}, {"bad": 0}), Counts({"all": 10}, {"bad": 2})
    only_bad_grew = Counts({"all": 10}, {"bad": 3})
    with asked(Answers(first, second, only_bad_grew), failed_included=True) as (counting, _):
        before = read_until(counting, lambda reading: reading.n_failed_total == 2)
        after = read_until(counting, lambda reading: reading.n_failed_total == 3)

    assert (before.n_done_total, after.n_done_total) == (8, 8)


def test_a_bug_in_what_asks_reaches_whoever_reads() -> None:
    with asked(Answers(ZeroDivisionError())) as (counting, _), pytest.raises(ZeroDivisionError):
        read_until(counting, lambda _: False)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"a": 1e308, "b": 1e308}, wording("probes.count-too-large")),
        ({"a": float("nan")}, wording("probes.count-too-large")),
        ({"a": 10**4000}, wording("probes.count-too-large")),
        ({"a": 8e15, "b": 8e15}, wording("probes.sum-too-large")),
        ({f"s{n}": 1 for n in range(10_001)}, wording("probes.too-many-series")),
    ],
    ids=key_of,
)
def test_what_cannot_be_a_count_of_items_is_no_answer(counts: dict[str, float], said: str) -> None:
    with asked(Answers(Counts({"a": 0}), Counts(counts))) as (counting, _):
        error = read_until_it_fails(counting)

    assert said in error.problem


def test_series_that_come_and_go_are_not_remembered_for_ever() -> None:
    n_asked = 0

    def other_series_each_time() -> Counts:
        nonlocal n_asked
        n_asked += 1
        return Counts({f"{n_asked} {n}": 1 for n in range(4000)})

    with asked(other_series_each_time) as (counting, _):
        error = read_until_it_fails(counting)

    assert wording("probes.more-than-series-came") in error.problem


def test_a_problem_that_quotes_others_is_one_short_line() -> None:
    with asked(Answers(MeasurementError("it said \x1b[2J\n" + "x" * 100_000))) as (counting, _):
        error = read_until_it_fails(counting)

    assert wording("probes.it-said-hostile") in error.problem
    assert len(error.problem) < 500
    assert error.problem.isprintable()
