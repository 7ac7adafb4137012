"""Published claims on pools for jobs that compute and sleep, checked against the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import truediv

from tuner.lab.experiments.experiment import LabClaim, NotRunError, Row
from tuner.lab.experiments.pi_pools_seen import (
    ALONE,
    CPU,
    FIXED,
    JITTER,
    OWN,
    PYTHON,
    SCHEDULED,
    SEMAPHORE,
    SLEEPS,
    C,
    PoolRows,
)
from tuner.lab.experiments.verdicts import ALIKE, Ratio, both, either, judge_claim, measured_ratio, over

FLAT_RATIO = 1.10  #: largest ratio to the time with one job per core at which the time counts as constant
GAIN = 0.05  #: smallest relative gain that counts
CURED_RATIO = 0.8  #: largest ratio of the waits with the remedy to those without it
LATER = 2.0  #: least ratio of two delays of the heartbeat at which one counts as longer

Verdict = tuple[bool | None, str]  #: whether a claim holds, and the reason


def findings(rows: Sequence[Row]) -> list[LabClaim]:
    """Return the published claims, and then the additional questions."""
    seen = PoolRows(rows)
    return [
        judge_claim(claim, partial(judge, seen))
        for claim, judge in (
            (
                f"A job that only computes takes {seen.all_cores_claimed:.2g} times as long as alone if one "
                "such job runs on each core.",
                _all_cores,
            ),
            (
                "If jobs only compute, more threads than cores never give more finished jobs per second.",
                _more_threads,
            ),
            (
                "With a fixed pool of one thread per core, the time of a batch is proportional to the "
                "number of jobs, because a job keeps its thread while it sleeps.",
                _fixed_is_linear,
            ),
            (
                "With one thread per job, the time of a batch stays the same up to about "
                f"{seen.flat_to:g} jobs per core, and then rises.",
                _flat,
            ),
            (
                "With one thread per job, the time of a batch rises because threads starve, and not only "
                "because the cores are full.",
                _starves,
            ),
            (
                "A semaphore that lets one job per core compute avoids the cost of one thread per job, if a "
                "job releases the semaphore while it sleeps.",
                _semaphore,
            ),
            (
                "Not published: if the cores are full, an almost idle thread (heartbeat) is delayed at "
                f"least {LATER:g} times as long with one thread per job as with the semaphore.",
                _heart,
            ),
            (
                "For any number of jobs, a scheduled pool of one thread per core is as fast as one thread "
                "per job with the semaphore.",
                _judge_schedule,
            ),
            (
                f"The rule threads = cores / utilization "
                f"({seen.published[C, SLEEPS, OWN, ALONE]['fill_core']:g} threads per core) gives enough "
                f"threads if only one job per core computes at a time.",
                _cores_over_utilization,
            ),
            (
                "Not published: jobs that begin together and sleep equally long wake together. If the "
                f"sleeps of such jobs are unequal (jitter), each step of a job waits at least "
                f"{100 * (1 - CURED_RATIO):.0f} % less for a core, unless the cores are full.",
                _stampede,
            ),
            (
                "Not published: because of the GIL, jobs that compute in Python use one core, however many "
                "cores the host has.",
                _under_the_gil,
            ),
        )
    ]


def follows(rows: Sequence[Row]) -> str:
    """Return the range of a thread per job, and the gain from limiting the threads that compute."""
    seen = PoolRows(rows)
    own, held, steps = (seen.per_core(C, SLEEPS, pool) for pool in (OWN, SEMAPHORE, SCHEDULED))
    most = max(own)
    if not any(n in held for n in own):
        raise NotRunError("own threads and the semaphore with as many jobs were not run")
    saved = [100 * (over(held[n], own[n]).value - 1) for n in own if n in held]
    return (
        f"With one thread per job, the time of a batch stays the same up to {_flat_to(own):g} jobs per core. "
        f"With {most:g} jobs per core, a batch takes {own[most].of('ratio') / own[1.0].of('ratio'):.2f} "
        f"times as long as with 1 job per core (at best {seen.least(most) / own[1.0].of('ratio'):.2f} "
        f"times). If a semaphore lets only one job per core compute at a time, the time of a batch changes "
        f"by {min(saved):+.0f} to {max(saved):+.0f} %. If a pool of "
        f"{steps[most].of('n_threads'):.0f} threads runs single steps of all jobs (scheduled pool), a "
        f"batch takes {over(steps[most], held[most]).value:.2f} times as long as with such a semaphore and "
        f"{held[most].of('n_threads'):.0f} threads, one per job."
    )


def _all_cores(seen: PoolRows) -> Verdict:
    claimed = seen.all_cores_claimed
    here = over(seen.all_cores, seen.alone)
    where = f"on {seen.n_cores:.0f} cores"
    if "n_physical" in seen.alone.measured:
        n_physical = seen.alone.of("n_physical")
        where += f" ({n_physical:.0f} physical cores)"
    return (
        here.near(claimed) if seen.n_cores > 1 else None,
        f"Measured: the job takes {here.value:.2f} times as long{_format_ratio(here)} {where}.",
    )


def _more_threads(seen: PoolRows) -> Verdict:
    own, fixed = (seen.per_core(C, CPU, pool) for pool in (OWN, FIXED))
    gains = {n: over(row, own[1.0], "jobs_per_s") for n, row in own.items() if n > 1}
    by_fixed = {n: over(row, own[1.0], "jobs_per_s").value for n, row in fixed.items()}
    reported = _by_jobs(
        {
            n: f"{gain.value:.2f} times" + (f" (fixed pool: {by_fixed[n]:.2f})" if n in by_fixed else "")
            for n, gain in gains.items()
        }
    )
    return (
        both(*(gain.at_most(1 + GAIN) for gain in gains.values())),
        f"Measured jobs per second compared with one job per core: {reported}.",
    )


def _fixed_is_linear(seen: PoolRows) -> Verdict:
    fixed = seen.per_core(C, SLEEPS, FIXED)
    slopes = {n: over(row, fixed[1.0]).times(1 / n) for n, row in fixed.items() if n > 1}
    reported = _ratios(slopes)
    return (
        both(*(slope.near(1.0) for slope in slopes.values())),
        f"Measured time per job divided by the time with one job per core: {reported}.",
    )


def _flat(seen: PoolRows) -> Verdict:
    own = seen.per_core(C, SLEEPS, OWN)
    claimed = seen.flat_to
    here, modelled = _flat_to(own), all(row.modelled for row in own.values())
    by_model = f" (in the model: up to {_flat_to(own, modelled=True):g} jobs)" if modelled else ""
    beyond = [n for n in own if n > claimed]
    verdict = over(own[claimed], own[1.0]).at_most(FLAT_RATIO)
    if beyond:
        risen = over(own[beyond[0]], own[1.0]).at_most(FLAT_RATIO)
        verdict = both(verdict, None if risen is None else not risen)
    reported = _ratios({n: over(row, own[1.0]) for n, row in own.items() if n > 1})
    published = (seen.published[at]["ratio"] for at in (seen.asleep.at, seen.all_cores.at))
    full = over(seen.asleep, seen.all_cores).value, truediv(*published)
    return (
        verdict if beyond else None,
        f"Measured: the batch time rises by at most {100 * (FLAT_RATIO - 1):.0f} % up to {here:g} jobs per "
        f"core{by_model}. Time divided by the time with one job per core: {reported}. The cores are full "
        f"from {full[0]:.1f} jobs per core (by the published figures from {full[1]:.1f}).",
    )


def _starves(seen: PoolRows) -> Verdict:
    own = seen.per_core(C, SLEEPS, OWN)
    extra = {n: measured_ratio(row).times(1 / seen.in_step(n)) for n, row in own.items()}
    least = _ratios({n: measured_ratio(row).times(1 / seen.least(n)) for n, row in own.items()})
    reported = _ratios(dict(reversed(extra.items())))  # full cores first
    return (
        either(*(one.at_least(1 + ALIKE) for one in extra.values())),
        f"Measured batch time divided by the time of jobs that always compute and sleep together: "
        f"{reported}. Batch time divided by the shortest possible time (the CPU time of all jobs divided by "
        f"the cores, or the time of one job if that is longer): {least}.",
    )


def _semaphore(seen: PoolRows) -> Verdict:
    own, held = (seen.per_core(C, SLEEPS, pool) for pool in (OWN, SEMAPHORE))
    gains = {n: over(own[n], held[n]) for n in own if n in held and n > 1}
    reported = _ratios(gains)
    return (
        either(*(gain.at_least(1 + GAIN) for gain in gains.values())),
        f"Measured batch time without the semaphore, divided by the time with it: {reported}.",
    )


def _heart(seen: PoolRows) -> Verdict:
    own, held = (seen.per_core(C, SLEEPS, pool) for pool in (OWN, SEMAPHORE))
    ratios = {n: over(own[n], held[n], "beat_p99_ms") for n in own if n in held and n > seen.fill}
    reported = _by_jobs(
        {
            n: f"{own[n].of('beat_p99_ms'):.1f} and {held[n].of('beat_p99_ms'):.1f} ms"
            for n in reversed(own)  # full cores first
            if n in held
        }
    )
    return (
        both(*(ratio.at_least(LATER) for ratio in ratios.values())),
        f"Measured delay (p99) of the heartbeat without and with the semaphore: {reported}.",
    )


def _judge_schedule(seen: PoolRows) -> Verdict:
    held, steps = (seen.per_core(C, SLEEPS, pool) for pool in (SEMAPHORE, SCHEDULED))
    ratios = {n: over(steps[n], held[n]) for n in steps if n in held}
    reported, most = _ratios(ratios), max(steps)
    if not ratios:
        raise NotRunError("the scheduled pool and the semaphore with as many jobs were not run")
    return (
        both(*(ratio.at_most(1 + ALIKE) for ratio in ratios.values())),
        f"Measured batch time of the scheduled pool divided by the time with the semaphore: {reported}. The "
        f"pool has {steps[most].of('n_threads'):.0f} threads and an event loop for "
        f"{steps[most].of('n_jobs'):.0f} jobs.",
    )


def _cores_over_utilization(seen: PoolRows) -> Verdict:
    held = seen.per_core(C, SLEEPS, SEMAPHORE)
    best = max(held.values(), key=lambda row: row.of("jobs_per_s"))
    shares = {n: over(row, best, "jobs_per_s") for n, row in held.items()}
    enough = min(n for n, share in shares.items() if share.value >= 1 - GAIN)
    expected = [n for n in held if n >= (1 - GAIN) * seen.fill]
    verdict = None
    if expected:
        fewer = [n for n in held if n < expected[0]]
        reached = [shares[n].at_least(1 - GAIN) for n in (*fewer[-1:], expected[0])]
        verdict = both(*(None if one is None else not one for one in reached[:-1]), reached[-1])
    reported = _by_jobs({n: f"{100 * share.value:.0f} %" for n, share in shares.items()})
    return (
        verdict,
        f"Measured: {enough:g} threads per core reach {100 - 100 * GAIN:.0f} % of the best throughput; the "
        f"rule gives {seen.fill:.1f} threads per core. Finished jobs per second, divided by the "
        f"best: {reported}.",
    )


def _stampede(seen: PoolRows) -> Verdict:
    alike, jitter = (seen.per_core(C, SLEEPS, pool) for pool in (OWN, JITTER))
    both_ran = [n for n in alike if n in jitter and 1 < n < seen.fill]
    ratios = {n: over(jitter[n], alike[n], "wait_p99_ms") for n in both_ran}
    waits = _by_jobs(
        {n: f"{alike[n].of('wait_p99_ms'):.1f} and {jitter[n].of('wait_p99_ms'):.1f} ms" for n in ratios}
    )
    times = _by_jobs(
        {
            n: f"{alike[n].of('ratio'):.1f}, {jitter[n].of('ratio'):.1f} and {seen.in_step(n):.1f}"
            for n in ratios
        }
    )
    return (
        both(*(ratio.at_most(CURED_RATIO) for ratio in ratios.values())),
        f"Measured wait of a step (p99) with equal and unequal sleeps: {waits}. Time "
        f"of the batch with equal and with unequal sleeps, and of jobs that always wake together: {times}.",
    )


def _under_the_gil(seen: PoolRows) -> Verdict:
    alone = seen.rows[PYTHON, CPU, OWN, ALONE]
    own, in_c = (seen.per_core(work, SLEEPS, OWN) for work in (PYTHON, C))
    used = {n: over(alone, row).times(row.of("n_jobs")) for n, row in own.items()}
    most = max((n for n in own if n in in_c), default=min(own))
    busiest = max(used, key=lambda n: used[n].value)
    c_used = over(seen.alone, in_c[most]).times(in_c[most].of("n_jobs"))
    return (
        used[busiest].at_most(1 + ALIKE) if seen.n_cores > 1 else None,
        f"Measured: jobs in Python use up to {used[busiest].value:.2f} cores (with {busiest:g} jobs per "
        f"core). With work in C they use {c_used.value:.2f} cores ({most:g} jobs per core). With "
        f"{most:g} jobs per core the heartbeat is delayed by {own[most].of('beat_p99_ms'):.1f} ms (p99) "
        f"under the GIL, and by {in_c[most].of('beat_p99_ms'):.1f} ms with work in C.",
    )


def _flat_to(rows: Mapping[float, Row], *, modelled: bool = False) -> float:
    """Return the number of jobs per core up to which the time is constant."""
    times = {n: row.modelled["ratio"] if modelled else row.of("ratio") for n, row in rows.items()}
    flat = min(times)
    for n, took in times.items():
        if took > FLAT_RATIO * times[min(times)]:
            break
        flat = n
    return flat


def _format_ratio(ratio: Ratio) -> str:
    return f" ({ratio.low:.2f} to {ratio.high:.2f} in the runs)"


def _ratios(ratios: Mapping[float, Ratio]) -> str:
    return _by_jobs({n: f"{ratio.value:.2f}" for n, ratio in ratios.items()})


def _by_jobs(figures: Mapping[float, str]) -> str:
    """Return *figures* as a list, each with its number of jobs per core."""
    unit = iter([f" {'job' if next(iter(figures), 0) == 1 else 'jobs'} per core"])
    return ", ".join(f"{figure} with {n:g}{next(unit, '')}" for n, figure in figures.items())
