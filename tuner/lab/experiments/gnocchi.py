"""Gnocchi experiment, when threads pay: a batch of eight series, in a loop or by a pool of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from tuner.core.model.pools import PoolCosts
from tuner.lab.experiments.experiment import (
    FOREIGN,
    At,
    LabClaim,
    LabFigure,
    LabJob,
    Model,
    NotRunError,
    Row,
    Spread,
)
from tuner.lab.experiments.gnocchi_pool import (
    Measured,
    Operation,
    Store,
    break_even_wait_s,
    n_threads_of,
    numbers_of_pools,
    operations_of,
    pool_costs,
    pool_rows,
    run_of,
    store_of,
)

WORK_US = 6.75  #: computation for one series, as published, in microseconds
SECONDS = 3.0  #: duration of the timed batches of each run
_THREADS = (1, 2, 3, 4, 6, 8)
_QUICK_THREADS = (1, 3, 6)
_NEARER = (("remote redis", 50.0), ("remote redis", 100.0))  #: stores added to the published ones
_QUICK_NEARER = _NEARER[:1]
_SURELY = 0.1  #: error assumed for a gain that was measured only once


class Gnocchi:
    """The batch of Gnocchi's storage: read, work, write."""

    name = "gnocchi"
    title = "so when should you use threads?"
    publication = "gnocchi"
    what = (
        "A batch has eight operations, one per series, in a plain loop or on a pool of threads "
        "created for the batch. To read and write a series takes seven calls for a file, and two commands "
        "for Redis. The files are in memory if the host has /dev/shm. The time of a batch is the median of "
        "all batches within three seconds."
    )
    parameters = ("target", "away us", "threads")
    figures = (
        LabFigure("batch_ms", "batch ms", 2, caption="time of a batch for each store and number of threads"),
        LabFigure("low_ms", "quarter below ms", 2),
        LabFigure("high_ms", "quarter above ms", 2),
        LabFigure("gain", "gain", 2),
        LabFigure("trip_us", "round trip us", 0, is_outcome=False),
        LabFigure("busy_us", "busy us", 0),
        LabFigure("wait_us", "wait us", 0),
        LabFigure("n_threads", "threads started", 0),
        LabFigure("work_us", "work us", 2, is_outcome=False),
        FOREIGN,
    )
    needs = ()
    #: The number of rounds in WORK_US is measured once for all runs, because separate measurements would give
    #: each run a different amount of work.
    calibration = LabJob("gnocchi_batch.py", ("--calibrate", "--work-us", f"{WORK_US:g}"), at_most_s=180.0)

    def published(self, seeds: Mapping[str, Any]) -> dict[At, dict[str, float]]:
        """Return the figures of six stores, with one thread and with six."""
        return {
            (str(target), float(away_us), float(n)): {"batch_ms": float(took_ms)}
            for target, away_us, one_ms, six_ms in seeds[self.publication]["rows"]
            for n, took_ms in ((1, one_ms), (6, six_ms))
        }

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return the published points, and others with more numbers of threads and nearer Redises; fewer
        if *quick*.
        """
        stores = sorted(
            {*map(store_of, published), *(_QUICK_NEARER if quick else _NEARER)}, key=lambda one: one[::-1]
        )
        numbers = {int(at[2]) for at in published} | set(_QUICK_THREADS if quick else _THREADS)
        return [(*store, float(n)) for store, n in product(stores, sorted(numbers))]

    def job(self, at: At) -> LabJob:
        """Return the program that runs batches for some seconds."""
        target, away_us = store_of(at)
        options = ("--target", target, "--delay-us", f"{away_us:g}", "--threads", f"{n_threads_of(at)}")
        in_redis = target.endswith("redis")
        return LabJob(
            "gnocchi_batch.py",
            (*options, "--seconds", f"{SECONDS:g}"),
            at_most_s=180.0,
            programs={"redis-server": ("--version",)} if in_redis else {},
            needs=("redis",) if in_redis else (),
            handed={"--rounds": "rounds"},
        )

    def model(self, runs: Measured) -> Model:
        """Return the model: operation times from the rows of one thread, and pool costs from four rows."""
        operations = operations_of(runs)
        fitted = pool_rows(runs)
        costs = pool_costs(runs)
        modelled = {}
        for at in runs:
            operation, n = operations.get(store_of(at)), n_threads_of(at)
            if operation is None or (n > 1 and costs is None):
                continue
            run = run_of(operation, n, costs)
            modelled[at] = {
                "batch_ms": 1e3 * run.total_s,
                "gain": operation.batch_s / run.total_s,
                "n_threads": float(run.n_threads),
            }
        alone = {at for at in runs if n_threads_of(at) == 1}
        text = (
            "The model takes the computing time and the waiting time of an operation on each store from the "
            "measured row with one thread."
        )
        if costs is None:
            return Model(modelled, frozenset(alone), f"{text} No larger pool was measured.")
        text += (
            f" In the model, threads get the GIL in order of arrival, a pool costs {1e3 * costs.start_s:.2f} "
            f"ms, and each thread that the pool starts holds the GIL for {1e6 * costs.thread_s:.0f} us. Both "
            f"costs of a pool are fitted to {len(fitted)} rows, which combine the fewest or the most threads "
            f"with the "
            "shortest or the longest waits."
        )
        return Model(modelled, frozenset({*alone, *fitted}), text)

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the claims: the winner at each store, the effect of distance, and the rule, checked on
        every row.
        """
        run = {row.at: row for row in rows if row.measured}
        won = [(at, row) for at, row in run.items() if row.published and n_threads_of(at) > 1]
        published = {row.at: row.published for row in rows}
        return [
            *(_compare_gain(row, published) for _, row in won),
            *_further_away([row for _, row in won]),
            _rule({at: row.measured for at, row in run.items()}),
        ]

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the rule, with the figures of this host."""
        measured = {row.at: row.measured for row in rows if row.measured}
        costs = pool_costs(measured)
        if costs is None:
            raise NotRunError("no pool was measured, only one thread")
        pays = {n: 1e6 * break_even_wait_s(n, costs) for n in numbers_of_pools(measured)}
        (fewest, least_us), *others = pays.items()
        limits = ", ".join(f"{wait_us:.0f} us for {n} threads" for n, wait_us in others)
        reported, wrong = _judge_rows(measured, costs)
        return (
            "A pool of threads is faster than a plain loop if the pool saves more waiting time than it "
            f"costs. On the measured host, a pool of {fewest} threads saves more than it costs if each of "
            f"the eight operations of a batch waits longer than {least_us:.0f} us. "
            f"{f'The limit is {limits}. ' * bool(limits)}The rule is right in "
            f"{len(reported) - len(wrong)} of the {len(reported)} measured settings in which all runs agree "
            "whether the pool is faster."
        )


def _describe_store(store: Store) -> str:
    target, away_us = store
    return f"{target} (answers delayed by {away_us:g} us)" if away_us else target


def _pays(gain: Spread) -> bool | None:
    """Return whether the pool was faster than the loop; None: the runs do not decide."""
    low, high = (gain.low, gain.high) if gain.n > 1 else (gain.low - _SURELY, gain.high + _SURELY)
    return True if low > 1 else False if high < 1 else None


def _times(gain: float) -> str:
    return f"{'is' if gain >= 1 else 'takes'} {_factor(gain)} as"


def _factor(gain: float) -> str:
    return f"{gain:.2f} times as fast" if gain >= 1 else f"{1 / gain:.2f} times as long"


def _lies(gain: Spread) -> str:
    """Return the least and the greatest *gain*, inverted as `_times` does it."""
    low, high = (gain.low, gain.high) if gain.median >= 1 else (1 / gain.high, 1 / gain.low)
    return f"{low:.2f} to {high:.2f} in the runs"


def _compare_gain(row: Row, published: Mapping[At, Mapping[str, float]]) -> LabClaim:
    n = n_threads_of(row.at)
    claimed = published[*store_of(row.at), 1.0]["batch_ms"] / row.published["batch_ms"]
    gain = row.measured["gain"]
    pays = _pays(gain)
    lies = f" ({_lies(gain)})" if gain.n > 1 else ""
    model = f" The model predicts {_factor(row.modelled['gain'])}." if row.modelled else ""
    return LabClaim(
        f"With a {_describe_store(store_of(row.at))}, a pool of {n} threads {_times(claimed)} a plain loop.",
        None if pays is None else pays == (claimed > 1),
        f"Measured: the pool of {n} threads {_times(gain.median)} the loop{lies}.{model} With the "
        f"pool, a batch takes {row.of('batch_ms'):.2f} ms.",
    )


def _further_away(rows: Sequence[Row]) -> list[LabClaim]:
    """Return, for targets tried at two distances with equal threads, which distance gains more."""
    found = []
    for target in dict.fromkeys(row.at[0] for row in rows):
        same = sorted((row for row in rows if row.at[0] == target), key=lambda row: row.at[1])
        if len(same) < 2:
            continue
        near, far = same[0], same[-1]
        here = near.measured["gain"], far.measured["gain"]
        apart = here[1].low > here[0].high or here[1].high < here[0].low
        found.append(
            LabClaim(
                f"A pool of {n_threads_of(far.at)} threads gains more speed if a {target} delays answers by "
                f"{far.at[1]:g} us than by {near.at[1]:g} us.",
                here[1].median > here[0].median if apart and min(one.n for one in here) > 1 else None,
                f"Measured: the pool is {here[1].median:.2f} times as fast as the plain loop with "
                f"{far.at[1]:g} us, and {here[0].median:.2f} times with {near.at[1]:g} us. The measured "
                f"round trips are {far.of('trip_us'):.0f} "
                f"and {near.of('trip_us'):.0f} us.",
            )
        )
    return found


def _judge_rows(runs: Measured, costs: PoolCosts) -> tuple[dict[At, bool], list[At]]:
    """Return whether the pool won, for each decided row of a pool, and the rows in which the rule is
    wrong.
    """
    operations = operations_of(runs)
    verdicts = {
        at: _pays(values["gain"])
        for at, values in runs.items()
        if n_threads_of(at) > 1 and store_of(at) in operations
    }
    data = {at: pays for at, pays in verdicts.items() if pays is not None}
    wrong = [
        at
        for at, pays in data.items()
        if pays != (operations[store_of(at)].wait_s > break_even_wait_s(n_threads_of(at), costs))
    ]
    return data, wrong


def _rule(runs: Measured) -> LabClaim:
    """Return the rule, checked on every row of a pool."""
    claim = (
        "Not published: a pool of threads is faster than a loop if the pool saves more waiting time than it "
        "costs. "
        "In the eight operations of a batch, a loop waits eight times for the store, but for example a "
        "pool of 4 threads only twice."
    )
    operations, costs = operations_of(runs), pool_costs(runs)
    if costs is None:
        return LabClaim(claim, None, "No pool was measured, only one thread.")
    reported, wrong = _judge_rows(runs, costs)
    n_fitted = len(set(pool_rows(runs)) & set(reported))
    why = (
        f"The rule is right in {len(reported) - len(wrong)} of the {len(reported)} measured settings in "
        "which all runs agree whether the pool is faster"
    )
    if wrong:
        why += (
            "; wrong: "
            f"{'; '.join(f'{_describe_store(store_of(at))}, {n_threads_of(at)} threads' for at in wrong)}"
        )
    crossings = [_crossing(n, operations, reported, costs) for n in numbers_of_pools(runs)]
    return LabClaim(
        claim,
        None if not reported else not wrong,
        f"{why}. A pool costs {1e3 * costs.start_s:.2f} ms here, and {1e6 * costs.thread_s:.0f} us more for "
        f"each thread (fitted to {n_fitted} of these settings). {' '.join(crossings)}",
    )


def _crossing(
    n_threads: int, operations: Mapping[Store, Operation], data: Mapping[At, bool], costs: PoolCosts
) -> str:
    """Return the wait from which *n_threads* threads pay: by the rule, and as measured."""
    by_store = {store_of(at): pays for at, pays in data.items() if n_threads_of(at) == n_threads}
    lost = [operations[one] for one, pays in by_store.items() if not pays]
    won = [operations[one] for one, pays in by_store.items() if pays]
    sides = []
    if lost:
        sides.append(f"up to {_of_wait(max(lost, key=lambda one: one.wait_s))} they lose")
    if won:
        sides.append(f"from {_of_wait(min(won, key=lambda one: one.wait_s))} on they win")
    measured = f"; measured: {', '.join(sides)}" if sides else ""
    pays_us = 1e6 * break_even_wait_s(n_threads, costs)
    return f"{n_threads} threads: they should pay from a wait of {pays_us:.0f} us{measured}."


def _of_wait(operation: Operation) -> str:
    times = operation.wait_s / operation.busy_s
    return f"{1e6 * operation.wait_s:.0f} us ({times:.1f} times the computing)"
