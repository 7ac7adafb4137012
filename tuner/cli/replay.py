"""tuner replay: a strategy on simulated services with known throughput, thousands of times."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.core.errors import ConfigError
from tuner.core.text.figures import percent, pluralize

if TYPE_CHECKING:
    from tuner.core.planning.replay import ReplayedStudy, ReplayJob, ReplaySummary


def replay(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="Set of simulated services (suite): a name such as slippage, a JSON file, or a study file.",
        ),
    ],
    strategy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Strategy to test: race, all, in-order, successive-halving or f-race (default: race).",
        ),
    ] = "race",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            show_default=False,
            help="Value of `tuner grid --kind` in the simulated studies: strict or calibrated "
            "(default: strict).",
        ),
    ] = "strict",
    surfaces: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Simulate only the first N services of SUITE (default: all).",
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            show_default=False,
            help="Number of simulated studies for each service of SUITE (default: 1).",
        ),
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help="Seed for the random numbers of the simulation (default: 1).",
        ),
    ] = 1,
    windows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of measurements in each simulated study, for strategies without a rule when "
            "to stop.",
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help=(
                "Count a simulated study as right if it chooses a layout that is at most this much slower "
                "than the best layout (default: the value in SUITE)."
            ),
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="Confidence that the strategy must reach (default: the value in SUITE).",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=("Number of processes in which tuner simulates studies (default: one per available core)."),
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")] = False,
) -> int:
    """Test a strategy in simulated studies: print how many answers are right, and how long the studies take.

    tuner starts no service. From the true throughputs of the layouts, tuner generates random windows, with
    the noise of a suite or of a measured study. The strategy reads only the windows. A study without an
    answer after 2000 windows counts as wrong, and its windows count for the length of the studies.

    Example: tuner replay slippage --strategy race --kind strict --surfaces 200
    """
    import dataclasses
    import json

    from tuner.cli.shared.output import show
    from tuner.core.planning.replay import summary
    from tuner.reports.replay import render_replay

    job = _job(suite, strategy, kind, seed, windows)
    chosen = dataclasses.replace(
        job.suite,
        within=job.suite.within
        if within is None
        else _share("--within", within, low=0.0, high=0.5, example="2%, or 0.02"),
        confidence=job.suite.confidence
        if confidence is None
        else _share("--confidence", confidence, low=0.5, high=1.0, example="95%, or 0.95"),
    )
    n_surfaces = chosen.n_surfaces
    if surfaces is not None and surfaces > n_surfaces:
        have = pluralize(n_surfaces, "surface")
        typer.echo(f"{chosen.name} has {have} only; --repeats replays each more often.", err=True)
    job = dataclasses.replace(job, suite=chosen)
    n_surfaces = min(surfaces or n_surfaces, n_surfaces)
    result: ReplaySummary = summary(job, _runs(job, n_surfaces, repeats, processes))
    if as_json:
        figures = {"schema_version": 1, **dataclasses.asdict(result)}
        typer.echo(
            json.dumps({key: round(x, 6) if isinstance(x, float) else x for key, x in figures.items()})
        )
    else:
        show(render_replay(chosen, result))
    return 0


def _job(suite: str, strategy: str, kind: str, seed: int, n_windows: int | None) -> ReplayJob:
    from difflib import get_close_matches

    from tuner.app.replaying import suite_of
    from tuner.core.planning.replay import ReplayJob
    from tuner.core.search.strategies import STRATEGIES, promises

    if strategy not in STRATEGIES:
        near = get_close_matches(strategy, STRATEGIES, n=1)
        problem = f"--strategy {strategy}: there is none" + (f", did you mean {near[0]}?" if near else "")
        raise ConfigError(problem, hint=f"One of {', '.join(STRATEGIES)}.")
    if n_windows is not None and promises(strategy):
        raise ConfigError(
            f"--windows cannot be combined with --strategy {strategy}, which decides when to stop",
            hint=f"Leave it out, or choose one of {', '.join(x for x in STRATEGIES if not promises(x))}.",
        )
    if kind not in ("strict", "calibrated"):
        raise ConfigError(f"--kind {kind}: should be strict or calibrated")
    asked: str = kind
    return ReplayJob(
        suite=suite_of(suite),
        strategy=strategy,
        kind="strict" if asked == "strict" else "calibrated",
        seed=seed,
        n_windows=n_windows,
    )


def _share(option: str, text: str, *, low: float, high: float, example: str) -> float:
    """Parse a share such as ``2%`` or ``0.02`` between *low* and *high*; errors show *example*."""
    number = text.strip()
    try:
        value = float(number.removesuffix("%"))
        if number.endswith("%"):
            value = float(f"{value / 100:.12g}")  # 5% is exactly 0.05, despite the rounding of the division
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is no share", hint=f"Write {example}.") from None
    if not low < value < high:
        wanted = f"between {percent(low)} and {percent(high)}"
        raise ConfigError(f"{option} {text}: should be {wanted}", hint=f"Write {example}.")
    return value


def _runs(job: ReplayJob, n_surfaces: int, repeats: int, processes: int | None) -> list[ReplayedStudy]:
    from tuner.app.replaying import replay_studies

    total = n_surfaces * repeats
    parts = _with_progress(replay_studies(job, total, repeats, processes), total)
    return [run for part in parts for run in part]


def _with_progress(parts: Iterator[list[ReplayedStudy]], total: int) -> Iterator[list[ReplayedStudy]]:
    """Yield *parts* while a line on the terminal shows the progress."""
    from tuner.core.text.figures import render_rest

    if not sys.stderr.isatty():
        yield from parts
        return
    began_s, n = time.monotonic(), 0
    try:
        for part in parts:
            n += len(part)
            rest_s = (time.monotonic() - began_s) * (total - n) / n
            sys.stderr.write(f"\r\x1b[K{n}/{total} studies, {render_rest(rest_s)} left")
            sys.stderr.flush()
            yield part
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
