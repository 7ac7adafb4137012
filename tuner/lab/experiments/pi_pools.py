"""Pi-pools experiment, how many threads are useful: jobs that compute and sleep, on four kinds of pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.model import pools
from tuner.core.model.machine import Machine
from tuner.lab.experiments.experiment import (
    FOREIGN,
    USABLE_CORES,
    At,
    LabClaim,
    LabFigure,
    LabJob,
    Model,
    Row,
    Spread,
    Value,
)
from tuner.lab.experiments.pi_pools_claims import findings, follows
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
)

CPU_S = 0.054  #: CPU time of a job; 54 ms represent the published 3 s
#: sleep of a job that sleeps; such a job takes 990 ms alone, which has the ratio of the published 55 s to 3 s
ASLEEP_S = 0.936
N_STEPS = 18
JITTER_RATIO = 0.5

_QUICK = {ALONE, 1.0, 10.0, 20.0}
_AT_MOST_S = 600.0
_PER_CORE = (1.0, 4.0, 10.0, 15.0, 20.0, 25.0, 30.0)
_POINTS: Mapping[At, tuple[Value, ...]] = {
    (C, CPU, OWN): (ALONE, 1.0, 4.0, 10.0, 25.0),
    (C, CPU, FIXED): (4.0, 10.0, 25.0),
    (C, SLEEPS, OWN): (ALONE, *_PER_CORE),
    (C, SLEEPS, FIXED): (1.0, 4.0, 10.0, 15.0, 20.0, 25.0),
    (C, SLEEPS, SEMAPHORE): _PER_CORE,
    (C, SLEEPS, SCHEDULED): _PER_CORE,
    (C, SLEEPS, JITTER): _PER_CORE,
    (PYTHON, CPU, OWN): (ALONE, 1.0, 4.0),
    (PYTHON, SLEEPS, OWN): (ALONE, 1.0, 4.0, 10.0, 20.0),
    (PYTHON, SLEEPS, SEMAPHORE): (10.0, 20.0),
    (PYTHON, SLEEPS, SCHEDULED): (10.0, 20.0),
}
_FITTED = ((C, CPU, OWN, ALONE), (C, CPU, OWN, 1.0), (C, SLEEPS, OWN, ALONE), (PYTHON, CPU, OWN, ALONE))


class PiPools:
    """Pools of threads for jobs that compute, and for jobs that compute and sleep."""

    name = "pi-pools"
    title = "how many threads may there be?"
    publication = "pi_pools_2023"
    what = (
        "All jobs of a batch begin at once. A job computes for 54 ms in 18 steps, in C without the GIL or in "
        "Python. In some settings, a job also sleeps after each of its 18 steps. Such a job takes 990 ms if "
        "it runs alone. In the publication, a job takes 3 s without sleeps and 55 s with sleeps. A fixed "
        "pool has one thread per core, and each "
        "thread runs one job to its end. With own threads, each job has a separate thread. With a semaphore, "
        "each job has a separate thread, but only one job per core may compute at a time. A scheduled pool "
        "has one thread per core, and each thread runs single steps of jobs. With jitter, each sleep of a "
        "job is up to about 50 % shorter or longer than the mean. The heartbeat is an almost idle thread "
        "that wakes up every 5 ms. The wait of a step is the time by which the step ends later than if it "
        "had computed at once."
    )
    parameters = ("work", "job", "pool", "jobs per core")
    figures = (
        LabFigure(
            "ratio",
            "time, of one job's CPU",
            2,
            caption="time of a batch, divided by 54 ms, for each kind of work, kind of job, pool and "
            "number of jobs",
        ),
        LabFigure("batch_s", "batch s", 3),
        LabFigure("jobs_per_s", "jobs/s", 2),
        LabFigure("n_threads", "threads", 0),
        LabFigure("fill_core", "threads that fill a core", 1),
        LabFigure("wait_p99_ms", "step waits p99 ms", 1),
        LabFigure("beat_p99_ms", "heart late p99 ms", 1),
        LabFigure("beat_max_ms", "most ms", 1),
        LabFigure("job_cpu_s", "a job's own CPU s", 4),
        FOREIGN,
    )
    needs = ()
    #: The number of units in a step is measured once for all runs, because separate measurements would give
    #: each run a different amount of work.
    calibration = LabJob(
        "pi_pools.py", ("--calibrate", "--cpu-s", f"{CPU_S:g}", "--steps", f"{N_STEPS}"), at_most_s=180.0
    )

    def published(self, seeds: Mapping[str, Any]) -> dict[At, dict[str, float]]:
        """Return the published numbers, as ratios to one job's CPU time, per core."""
        reported = seeds[self.publication]["figures"]
        alone_s, cores = float(reported["alone_s"]), float(reported["cores"])
        return {
            (C, CPU, OWN, ALONE): {"ratio": 1.0},
            (C, CPU, OWN, 1.0): {"ratio": reported["all_cores_s"] / alone_s},
            (C, SLEEPS, OWN, ALONE): {
                "ratio": reported["with_sleeps_s"] / alone_s,
                "fill_core": reported["threads"] / cores,
            },
            # flat up to this number: as long as a single job
            (C, SLEEPS, OWN, float(reported["flat_to_jobs_per_core"])): {
                "ratio": reported["with_sleeps_s"] / alone_s
            },
        }

    def points(self, published: Sequence[At], *, quick: bool) -> list[At]:
        """Return the points of the published facts, and nearby numbers of jobs; fewer and no slow ones if
        *quick*.
        """
        found: list[At] = [(*kind, n) for kind, counts in _POINTS.items() for n in counts]
        every = list(dict.fromkeys([*found, *published]))
        return [at for at in every if at[3] in _QUICK and at[2:] != (FIXED, 20.0)] if quick else every

    def job(self, at: At) -> LabJob:
        """Return the program of one batch; short ones are repeated."""
        work, kind, pool, n = at
        options = ["--work", f"{work}", "--pool", f"{OWN if pool == JITTER else pool}"]
        options += ["--cpu-s", f"{CPU_S:g}", "--steps", f"{N_STEPS}"]
        if kind != CPU:
            options += ["--asleep-s", f"{ASLEEP_S:g}"]
        if pool == JITTER:
            options += ["--jitter", f"{JITTER_RATIO:g}"]
        options += ["--alone"] if n == ALONE else ["--jobs-per-core", f"{n:g}"]
        handed = {"--units": f"{work}_units", "--cores": USABLE_CORES}
        return LabJob("pi_pools.py", tuple(options), at_most_s=_AT_MOST_S, handed=handed)

    def model(self, runs: Mapping[At, Mapping[str, Spread]]) -> Model:
        """Return closed forms of the pools, from the time of a single job and of one job per core."""
        fitted = frozenset(at for at in _FITTED if at in runs)
        if not fitted.issuperset(_FITTED[:3]):
            return Model(
                {},
                frozenset(),
                "This needs three rows, which these runs do not all have: a job alone, "
                "with and without sleeps, and as many as cores.",
            )
        alone, all_cores, asleep = (runs[at]["ratio"].median for at in _FITTED[:3])
        n_cores = runs[_FITTED[0]]["n_cores"].median
        worth = n_cores * min(1.0, alone / all_cores)
        machines = {C: Machine(cores=worth, has_gil=False), PYTHON: Machine(cores=1, has_gil=False)}
        computing = {C: alone}
        if _FITTED[3] in runs:
            computing[PYTHON] = runs[_FITTED[3]]["ratio"].median
        sleeping = max(0.0, asleep - alone)
        modelled = {}
        for at in runs:
            work, kind, pool, n = at
            if work not in computing:
                continue
            job = pools.PoolJob(computing[f"{work}"], 0.0 if kind == CPU else sleeping, N_STEPS)
            n_jobs = 1 if n == ALONE else max(1, round(float(n) * n_cores))
            ratio = _ratio(f"{pool}", n_jobs, job, machines[f"{work}"], int(n_cores))
            modelled[at] = {
                "ratio": ratio,
                "batch_s": ratio * CPU_S,
                "jobs_per_s": n_jobs / (ratio * CPU_S),
                "n_threads": min(n_jobs, n_cores) if pool in (FIXED, SCHEDULED) else float(n_jobs),
            }
            if n == ALONE:
                modelled[at]["fill_core"] = pools.threads_to_fill(1, job.utilization)
        text = (
            "The model has one formula for each kind of pool, fitted to four rows with single jobs and with "
            f"one job per core. {n_cores:.0f} busy cores together are {worth:.2f} times as "
            f"fast as a single busy core. In the model, a job sleeps for {sleeping:.1f} times its CPU time, "
            f"and own threads sleep at different times. With a semaphore or a scheduled pool, a batch "
            "takes the CPU time of all jobs divided by the cores, or the time of a single job if that is "
            "longer. A fixed pool runs as many jobs at a time as it has threads. Work in Python uses only "
            "one core because of the GIL."
        )
        return Model(modelled, fitted, text)

    def findings(self, rows: Sequence[Row]) -> list[LabClaim]:
        """Return the published claims, and the questions of the issue."""
        return findings(rows)

    def follows(self, rows: Sequence[Row]) -> str:
        """Return the range of a thread per job, and the gain from limiting the threads that compute."""
        return follows(rows)


def _ratio(pool: str, n_jobs: int, job: pools.PoolJob, machine: Machine, n_threads: int) -> float:
    if pool == FIXED:
        return pools.fixed_pool_s(n_jobs, job, machine, n_threads)
    if pool in (OWN, JITTER):
        return pools.own_threads_s(n_jobs, job, machine)
    return pools.by_turns_s(n_jobs, job, machine)
