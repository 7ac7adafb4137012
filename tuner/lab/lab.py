"""Use case that runs a published experiment and stores its results."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tuner.core.errors import ConfigError, MeasurementError, MissingToolError
from tuner.core.text.figures import pluralize
from tuner.lab.interpreters import (
    PROGRAM,
    QUICK_REPEATS,
    USUAL_REPEATS,
    USUAL_SEED,
    check_points,
    facts_of,
    on_interpreters,
)

if TYPE_CHECKING:
    from tuner.lab.experiments.experiment import At, Experiment, LabRun, Outcome, ProgramExperiment
    from tuner.lab.interpreters import LabAsked
    from tuner.lab.results import Results as Results
    from tuner.lab.studies import Measure
    from tuner.lab.tools import Tools

#: facts that must be unchanged when results are continued
_SAME = ("cpu", "host", "cores", "tuner", "worker_python")


def experiments() -> list[tuple[Experiment, str]]:
    """Return every experiment with its publication."""
    from tuner.lab.experiments import EXPERIMENTS
    from tuner.lab.experiments.experiment import source_of

    seeds = read_published()
    return [(one, source_of(one, seeds)) for one in EXPERIMENTS]


def find_experiment(name: str) -> Experiment:
    """Return the experiment called *name*.

    Raises:
        ConfigError: there is none.
    """
    from difflib import get_close_matches

    from tuner.lab.experiments import EXPERIMENTS

    known = {one.name: one for one in EXPERIMENTS}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"They are {', '.join(known)}."
        raise ConfigError(f"no experiment is called {name!r}", hint=hint)
    return known[name]


def lab_run(
    name: str, asked: LabAsked, tell: Callable[[str], None], measure: Measure
) -> tuple[Outcome, Results]:
    """Make the runs that an experiment's results file does not have yet; return the outcome of all.

    The file is written after each run, so that an interrupted experiment can be resumed; studies keep each
    window in a separate file. *measure* makes a study.

    Raises:
        ConfigError: another tuner measures here, a required package is missing, or the file is of
            something else.
        MeasurementError: every run failed.
        KeyboardInterrupt: a signal ended it; the finished runs are in the file.
    """
    from tuner.adapters.processes.signals import stopping_by_signal

    with stopping_by_signal(at_once=True):
        return _lab_run(name, asked, tell, measure)


def _lab_run(
    name: str, asked: LabAsked, tell: Callable[[str], None], measure: Measure
) -> tuple[Outcome, Results]:
    from tuner.lab.experiments.experiment import ProgramExperiment, in_blocks
    from tuner.lab.experiments.studied import StudyExperiment
    from tuner.lab.studies import run_studies

    experiment, seeds = find_experiment(name), read_published()
    results = _results_of(experiment, asked)
    if isinstance(experiment, StudyExperiment):
        check_points(experiment, results, asked.results)

        def check_same(before: Mapping[str, str], facts: Mapping[str, str]) -> None:
            original = {**before, "cores": f"{results.cores}"}
            _check_same(original, {**facts, "cores": f"{_n_cores()}"}, _SAME, asked.results)

        results = run_studies(experiment, asked, results, measure, tell, check_same)
        return _outcome(experiment, seeds, results, asked.results), results
    assert isinstance(experiment, ProgramExperiment)
    experiment, asked = on_interpreters(experiment, asked, results)
    check_points(experiment, results, asked.results)
    points = experiment.points(list(experiment.published(seeds)), quick=results.quick)
    made = {(run.block, run.at) for run in results.runs}
    order = [one for one in in_blocks(points, results.repeats, results.seed) if one not in made]
    if order:
        results = _run_all(experiment, asked, results, order, tell)
    return _outcome(experiment, seeds, results, asked.results), results


def _outcome(experiment: Experiment, seeds: Mapping[str, Any], results: Results, file: Path) -> Outcome:
    """Return the outcome of the runs of *results*, which are stored in *file*.

    Raises:
        ConfigError: the runs lack a required figure.
    """
    from tuner.lab.experiments.experiment import outcome

    try:
        return outcome(experiment, seeds, results.runs)
    except KeyError as error:
        key = error.args[0] if error.args else None
        if not isinstance(key, str) or not (n_without := sum(key not in run.values for run in results.runs)):
            raise  # the key is not a figure
        raise ConfigError(
            f"{file} has {pluralize(n_without, 'run')} without {key}, and {experiment.name} rests on it",
            hint="Name another file with --results.",
        ) from error


def _results_of(experiment: Experiment, asked: LabAsked) -> Results:
    """Return the existing results, or empty ones."""
    from tuner.lab.results import Results, read_results

    kept = read_results(asked.results)
    if kept is None:
        repeats = asked.repeats or (QUICK_REPEATS if asked.quick else USUAL_REPEATS)
        seed = USUAL_SEED if asked.seed is None else asked.seed
        return Results(experiment.name, asked.quick, repeats, seed, _n_cores(), {})
    if kept.name != experiment.name:
        raise ConfigError(
            f"{asked.results} has results of {kept.name}, not of {experiment.name}",
            hint="Name another file with --results.",
        )
    differing = [
        option
        for option, wanted, there in (
            ("--quick", asked.quick or None, kept.quick),
            ("--repeats", asked.repeats, kept.repeats),
            ("--seed", asked.seed, kept.seed),
        )
        if wanted is not None and wanted != there
    ]
    if differing:
        raise ConfigError(
            f"{asked.results} was made with another {', '.join(differing)}",
            hint="Leave that out to continue it, or name another file.",
        )
    return kept


def _run_all(
    experiment: ProgramExperiment,
    asked: LabAsked,
    results: Results,
    order: Sequence[tuple[int, At]],
    tell: Callable[[str], None],
) -> Results:
    from dataclasses import replace

    from tuner.adapters.host_lock import hold_host
    from tuner.adapters.provenance import provenance
    from tuner.adapters.supervisord.guardian import (
        Guardian,
        children_marked,
        new_scratch_path,
        scratch_folder,
    )
    from tuner.lab.experiments.experiment import USABLE_CORES, Failure, LabRun
    from tuner.lab.program import folder_of_programs, memory, run_job
    from tuner.lab.results import write_results
    from tuner.lab.tools import describe_others, tools_of

    python = asked.python or sys.executable
    tools = tools_of(experiment, [at for _, at in order], python, asked.also)
    able = [(block, at) for block, at in order if tools.can_run(experiment.job(at))]
    if not able and not results.runs:
        raise MissingToolError(" ".join(tools.left_out), hint=tools.hint)
    if not able:
        return results
    there = {name: version for name, version in tools.versions.items() if version}
    facts = {**provenance(), **there, **facts_of(experiment), "worker_python": tools.interpreter}
    if results.runs or asked.also:  # with several, points are named by interpreter
        before = {**results.provenance, "cores": f"{results.cores}"}
        names = (*_SAME, *there)
        _check_same(before, {**facts, "cores": f"{_n_cores()}"}, names, asked.results)
    named = {} if asked.python is None else {PROGRAM: results.provenance.get(PROGRAM, asked.python)}
    left_out = tools.left_out
    if asked.python is None and not results.quick:
        left_out += describe_others(experiment.needs, python, tools.interpreter)
    results = replace(results, provenance={**results.provenance, **facts, **named}, left_out=left_out)
    folder, marker = folder_of_programs(), uuid.uuid4().hex
    with ExitStack() as stack:
        held = stack.enter_context(hold_host(f"tuner lab {experiment.name}"))
        stack.enter_context(children_marked(marker))
        scratch = new_scratch_path(memory())
        guardian = Guardian(marker, [held], [scratch])  # removes the folder if tuner cannot
        stack.callback(guardian.close)
        stack.enter_context(scratch_folder(scratch, 0o700))
        write_results(asked.results, results)  # fail before anything runs
        tell(f"{experiment.name}: the runs are kept in {asked.results}")
        for sentence in left_out:
            tell(sentence)
        results = _calibrate(experiment, results, tools, scratch, asked.results)
        handed = {**results.calibration, USABLE_CORES: float(_n_cores())}
        ready = {at: tools.runnable(experiment.job(at).with_handed(handed), folder, tell) for _, at in able}
        for n, (block, at) in enumerate(able, 1):
            text = f"{n}/{len(able)}  {_point(experiment, at)}"
            try:
                run = LabRun(at, block, {**run_job(*ready[at], scratch), USABLE_CORES: handed[USABLE_CORES]})
            except MeasurementError as error:
                results = results.with_failure(Failure(at, block, error.problem))
                tell(f"{text} failed: {error.problem}")
            else:
                results = results.with_run(run)
                tell(f"{text}: {_first(experiment, run)}")
            write_results(asked.results, results)
    if not results.runs:
        raise MeasurementError(
            f"every run of {experiment.name} failed; the last error: {results.failed[-1].why}",
            hint=f"Fix that, then continue with --results {asked.results}.",
        )
    return results


def _calibrate(
    experiment: ProgramExperiment, results: Results, tools: Tools, scratch: Path, file: Path
) -> Results:
    """Return results with the calibration that all runs get, made once.

    Raises:
        ConfigError: there are runs without it.
        MeasurementError: it failed.
    """
    from dataclasses import replace

    from tuner.lab.program import folder_of_programs, run_job

    job = experiment.calibration
    if job is None or results.calibration:
        return results
    if results.runs:
        raise ConfigError(
            f"{file} has runs that each found for itself how much to compute",
            hint="Name another file with --results.",
        )
    return replace(results, calibration=run_job(job, [tools.python], folder_of_programs(), scratch))


def _point(experiment: Experiment, at: At) -> str:
    named = zip(experiment.parameters, at, strict=True)
    return ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in named)


def _first(experiment: Experiment, run: LabRun) -> str:
    figure = experiment.figures[0]
    if figure.key not in run.values:
        return "done"
    return f"{figure.label} {run.values[figure.key]:.{figure.digits}f}"


def _check_same(
    original: Mapping[str, str], facts: Mapping[str, str], names: Sequence[str], file: Path
) -> None:
    """Check that results are resumed on the same host, with the same interpreters and the same tuner.

    A tool that was missing at first, so that points were left out, may exist now.
    """
    for name in names:
        before, now = original.get(name), facts.get(name)
        if before is not None and before != now:
            raise ConfigError(
                f"{file} was begun with {name} {before!r}, and here it is {now!r}",
                hint="Continue there, or name another file with --results.",
            )


def _n_cores() -> int:
    """Return the number of whole cores for the programs, at most the quota."""
    from tuner.adapters.proc.cores import usable_cores

    return max(1, int(usable_cores().count))


# The published figures that tuner contains.


def read_published() -> dict[str, Any]:
    """Return the contents of ``published.yaml``: a block for each publication."""
    text = files("tuner.lab").joinpath("published.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found
