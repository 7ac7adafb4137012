"""gnocchi: what is made of its runs, the rule that is held against them, and the server that is far away."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tuner.core.model.pools import PoolCosts, run_waiting_pool
from tuner.lab.experiments.experiment import At, LabClaim, LabRun, Outcome, outcome, programs_at, spreads
from tuner.lab.experiments.gnocchi import Gnocchi
from tuner.lab.experiments.gnocchi_pool import N_SERIES, Operation, break_even_wait_s, pool_costs
from tuner.lab.lab import read_published
from tuner.lab.tools import tools_of
from tuner_workers.lab import far_away

from ..wording import end_of, wording

SEEDS = read_published()
COSTS = PoolCosts(1e-3, 0.0, 4e-5)  # from 207 us on six threads pay
BUSY_S = 2e-5
TRIPS = {"local file": 0, "local redis": 2, "remote file": 7, "remote redis": 2}
POINTS = Gnocchi().points(list(Gnocchi().published(SEEDS)), quick=False)


def operation(at: At) -> Operation:
    return Operation(BUSY_S, TRIPS[str(at[0])] * (2e-5 + 1e-6 * float(at[1])))


def made(at: At, block: int = 0) -> LabRun:
    """A run as the model would have it, with these costs, and a little more in each block."""
    one, n = operation(at), int(at[2])
    batch_s = one.batch_s
    n_threads = 1
    if n > 1:
        costs = PoolCosts(COSTS.start_s, one.busy_s, COSTS.thread_s)
        pool = run_waiting_pool(N_SERIES, one.wait_s, n, costs)
        batch_s, n_threads = pool.total_s, pool.n_threads
    factor = 1 + 0.01 * block
    values = {
        "batch_ms": 1e3 * batch_s * factor,
        "low_ms": 0.9e3 * batch_s * factor,
        "high_ms": 1.2e3 * batch_s * factor,
        "gain": one.batch_s / batch_s,
        "busy_us": 1e6 * one.busy_s * factor,
        "wait_us": 1e6 * one.wait_s * factor,
        "n_threads": float(n_threads),
    }
    if at[0] != "local file":
        values["trip_us"] = 20 + float(at[1])
    return LabRun(at, block, values)


def found(
    seeds: Mapping[str, Any] = SEEDS, *, n: int = 3, change: Callable[[LabRun], LabRun] = lambda run: run
) -> Outcome:
    return outcome(Gnocchi(), seeds, [change(made(at, block)) for block in range(n) for at in POINTS])


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return found()


def the_rule(result: Outcome) -> LabClaim:
    return result.findings[-1]


def test_points_lie_store_by_store_the_numbers_of_threads_in_order() -> None:
    stores = [at[:2] for at in POINTS]

    assert len(POINTS) == 8 * 6
    assert len(list(dict.fromkeys(stores))) == 8
    assert sum(one != two for one, two in pairwise(stores)) == 7
    assert [at[2] for at in POINTS[:6]] == [1, 2, 3, 4, 6, 8]


def test_a_quick_look_has_every_published_row() -> None:
    result = Gnocchi().published(SEEDS)
    quick = Gnocchi().points(list(result), quick=True)

    assert len(result) == 12
    assert set(result) < set(quick) < set(POINTS)


def test_rows_stand_in_the_order_of_the_points(whole: Outcome) -> None:
    assert [row.at for row in whole.rows] == POINTS
    assert sum(1 for row in whole.rows if row.published) == 12


def test_the_costs_of_a_pool_are_found_again(whole: Outcome) -> None:
    costs = pool_costs(spreads([made(at) for at in POINTS]))

    assert costs.start_s == pytest.approx(COSTS.start_s, rel=0.1)
    assert costs.thread_s == pytest.approx(COSTS.thread_s, rel=0.1)


def test_the_model_has_seen_one_thread_and_four_rows_and_tells_the_others(whole: Outcome) -> None:
    fitted = [row.at for row in whole.rows if row.is_fitted and row.at[2] != 1]
    errors = whole.errors("batch_ms")

    assert fitted == [
        ("local file", 0.0, 2.0), ("local file", 0.0, 8.0),
        ("remote file", 400.0, 2.0), ("remote file", 400.0, 8.0),
    ]  # fmt: skip
    assert len(errors) == 48 - 8 - 4
    assert max(map(abs, errors.values())) < 0.05


def test_the_rule_is_the_waits_saved_against_what_the_pool_costs() -> None:
    costs = PoolCosts(1e-3, 0.0, 1e-4)

    assert break_even_wait_s(6, costs) == pytest.approx((1e-3 + 6e-4) / 6)  # two waits, one after the other
    assert break_even_wait_s(2, costs) == pytest.approx((1e-3 + 2e-4) / 4)
    assert break_even_wait_s(16, costs) == break_even_wait_s(8, costs)  # no more threads than series


def test_the_rule_is_held_against_every_row_of_a_pool(whole: Outcome) -> None:
    rule = the_rule(whole)

    assert rule.holds is True
    assert "A pool costs 1.0" in rule.why
    assert wording("lab.right-in-rows", n=40) in rule.why
    six = rule.why.split(" 6 threads: ")[1].split(" 8 threads: ")[0]
    assert wording("lab.measured-up-us-times") in end_of(six)


def test_a_row_in_which_the_rule_is_wrong_is_named() -> None:
    def slow(run: LabRun) -> LabRun:
        if run.at != ("remote redis", 200.0, 4.0):
            return run
        return LabRun(run.at, run.block, {**run.values, "gain": 0.8})

    rule = the_rule(found(change=slow))

    assert rule.holds is False
    assert wording("lab.right-in-rows", n=39) in rule.why
    assert wording("lab.wrong-point") in rule.why


def test_runs_that_differ_on_who_wins_tell_nothing() -> None:
    def either(run: LabRun) -> LabRun:
        return LabRun(run.at, run.block, {**run.values, "gain": 0.95 + 0.1 * run.block})

    result = found(n=2, change=either)

    assert the_rule(result).holds is None
    assert [finding.holds for finding in result.findings[:6]] == [None] * 6


def test_who_wins_is_held_against_who_was_said_to_win(whole: Outcome) -> None:
    """With these costs six threads pay for the nearer Redis too, which the table does not say."""
    verdicts = {finding.claim: finding.holds for finding in whole.findings[:6]}

    assert verdicts == {
        wording("lab.times-as-long", what="local file", times="8.21"): True,
        wording("lab.times-as-long", what="local redis", times="4.23"): True,
        wording("lab.times-as-fast", what="file", us=200, times="1.57"): True,
        wording("lab.times-as-long", what="remote redis (answers delayed by 200 us)", times="1.27"): False,
        wording("lab.times-as-fast", what="file", us=400, times="1.78"): True,
        wording("lab.times-as-fast", what="redis", us=400, times="1.72"): True,
    }


def test_one_run_tells_who_wins_only_where_it_is_clear() -> None:
    def close(run: LabRun) -> LabRun:
        return LabRun(run.at, run.block, {**run.values, "gain": 1.05 if run.at[0] == "remote redis" else 2.0})

    result = found(n=1, change=close)

    assert [finding.holds for finding in result.findings[:6]] == [False, False, True, None, True, None]
    assert all(finding.holds is None for finding in result.findings[6:8])  # no range, no further and nearer


def test_what_is_further_away_gains_more(whole: Outcome) -> None:
    assert [finding.holds for finding in whole.findings[6:8]] == [True, True]
    assert wording("lab.round-trips-us") in whole.findings[6].why


def test_the_published_figures_reach_nothing_but_their_column_and_what_is_held_against_it(
    whole: Outcome,
) -> None:
    other = deepcopy(SEEDS)
    for row in other["gnocchi"]["rows"]:
        row[2:] = [3 * row[3], row[2]]
    result = found(other)

    assert [row.measured for row in result.rows] == [row.measured for row in whole.rows]
    assert [row.modelled for row in result.rows] == [row.modelled for row in whole.rows]
    assert (result.follows, result.model, the_rule(result)) == (whole.follows, whole.model, the_rule(whole))
    assert [row.published for row in result.rows] != [row.published for row in whole.rows]
    assert [one.holds for one in result.findings[:6]] != [one.holds for one in whole.findings[:6]]


def asked(name: bytes, number: int = 0, data: bytes = b"") -> bytes:
    return far_away.REQUEST.pack(name, number, len(data)) + data


def test_a_file_server_answers_whole_requests_only(tmp_path: Path) -> None:
    file = tmp_path / "series"
    request = asked(b"c", 0, bytes(file))
    waiting = bytearray(request[:-1])

    assert far_away.answers(waiting) == b""
    waiting += request[-1:]
    number, length = far_away.REPLY.unpack(far_away.answers(waiting))
    assert (length, waiting) == (0, b"")
    waiting += asked(b"w", number, b"12345") + asked(b"x", number) + asked(b"o", 0, bytes(file)) + b"r"
    *_, reading = (number for number, _ in far_away.REPLY.iter_unpack(far_away.answers(waiting)))
    assert waiting == b"r"
    read = far_away.answers(bytearray(asked(b"r", reading) + asked(b"x", reading)))
    assert read == far_away.REPLY.pack(5, 5) + b"12345" + far_away.REPLY.pack(0, 0)


def test_a_call_that_fails_is_answered_by_its_number(tmp_path: Path) -> None:
    answer = far_away.answers(bytearray(asked(b"o", 0, bytes(tmp_path / "none"))))

    assert far_away.REPLY.unpack(answer) == (-errno.ENOENT, 0)


def test_without_a_redis_the_files_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tools = tools_of(Gnocchi(), POINTS, sys.executable)
    able = [at for at in POINTS if tools.can_run(Gnocchi().job(at))]

    assert wording("lab.points-left-out-redis") in tools.left_out
    assert {str(at[0]) for at in able} == {"local file", "remote file"}
    result = outcome(Gnocchi(), SEEDS, [made(at) for at in able])
    assert the_rule(result).holds is True


def test_a_redis_is_needed_by_the_points_that_use_one() -> None:
    assert list(programs_at(Gnocchi(), POINTS)) == ["redis-server"]
    assert programs_at(Gnocchi(), [at for at in POINTS if "file" in str(at[0])]) == {}
