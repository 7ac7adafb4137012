"""tuner predict: the throughput of layouts and core counts that were not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.shared.options import (
    MOST_CORES,
    one_of,
    setting,
    variant_option,
)
from tuner.core.errors import ConfigError
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.core.domain.layout import Layout
    from tuner.core.model.calibration.calibrated import Calibrated
    from tuner.core.model.machine import Machine
    from tuner.core.model.prediction.whatif import WhatIf
    from tuner.reports.model.prediction import Predicted

_WAYS = ("network", "simulation")
_GRID = (
    "Set of layouts to predict: small, divisors or full, see `tuner grid` (default: the layouts of the "
    "study, or divisors if --cores differs)."
)
_WHAT, _WHAT_IF, _SHOWN = "Layouts", "Changes of the time that an item needs", "Output"


def _change(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="CHANGE", rich_help_panel=_WHAT_IF, help=what)
    return option


def predict(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY|PROFILE",
            readable=False,
            help="Study file, or a profile (YAML) from `tuner calibrate`.",
        ),
    ],
    cores: Annotated[
        int | None,
        setting(
            "cores",
            "Number of CPU cores of the predicted host (default: as on the measured host).",
            panel=_WHAT,
            min=1,
            max=MOST_CORES,
        ),
    ] = None,
    physical_cores: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            rich_help_panel=_WHAT,
            help=(
                "Number of physical cores, if --cores also counts SMT threads (default: as on the "
                "measured host)."
            ),
        ),
    ] = None,
    layouts: Annotated[
        str | None,
        setting("layouts", "Predict only these layouts (default: the layouts of --grid).", panel=_WHAT),
    ] = None,
    grid_name: Annotated[
        str | None,
        setting("grid_name", _GRID, panel=_WHAT),
    ] = None,
    variant: Annotated[str | None, variant_option(_WHAT)] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            autocompletion=one_of("network", "simulation"),
            rich_help_panel=_WHAT,
            show_default=False,
            help=(
                "network: predict with a queueing network; simulation: predict more exactly, and "
                "also predict the p95 latency (default: network)."
            ),
        ),
    ] = "network",
    gil: Annotated[
        list[str] | None,
        _change("Change the CPU time that an item needs in worker threads that hold the GIL."),
    ] = None,
    python: Annotated[
        list[str] | None,
        _change("Change the CPU time that an item needs in worker threads that have released the GIL."),
    ] = None,
    child_cpu: Annotated[
        list[str] | None, _change("Change the CPU time that an item needs in child processes.")
    ] = None,
    wait: Annotated[
        list[str] | None, _change("Change the time for which an item waits for sockets, locks and timers.")
    ] = None,
    blocked: Annotated[
        list[str] | None, _change("Change the time for which an item waits for disks and NFS.")
    ] = None,
    spawn: Annotated[
        list[str] | None, _change("Change the time that an item needs to start child processes.")
    ] = None,
    no_gil: Annotated[
        bool,
        typer.Option(
            "--no-gil",
            metavar="",
            rich_help_panel=_WHAT_IF,
            help="Predict for an interpreter without the GIL.",
        ),
    ] = False,
    show_all: Annotated[
        bool,
        typer.Option(
            "--all", metavar="", rich_help_panel=_SHOWN, help="Print all layouts, not only the best 20."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", rich_help_panel=_SHOWN, help="Print the result as JSON.")
    ] = False,
) -> int:
    """Predict throughput, load, CPU and memory of layouts that were not measured, on any number of cores.

    For each variant, the first table has the best layout with only processes, with only threads, and with
    both. The second table has the layouts of one variant (--variant).

    Throughput and load have a 90 % interval. With --json, CPU also has an interval, and memory if it is
    known. tuner marks predictions beyond the measured range, and prints the error on measured layouts.

    A CHANGE alters a time that an item needs: x0.5 halves the time, +200ms adds 200 ms, and -50ms subtracts
    50 ms. You can combine changes.

    Example: tuner predict study.tuner.db --cores 24 --grid full --child-cpu x0.5
    """
    import json

    from tuner.app import model
    from tuner.app.plan_builder import check_modelled
    from tuner.cli.shared.output import show
    from tuner.core.model.prediction.whatif import parse_what_if
    from tuner.reports.model.prediction import MOST_ROWS, prediction_facts, render_prediction
    from tuner.reports.model.shapes import render_shapes, shapes_facts

    if by not in _WAYS:
        raise ConfigError(f"--by {by}: should be {' or '.join(_WAYS)}")
    what_if = parse_what_if(
        {
            "gil": gil or (),
            "python": python or (),
            "child-cpu": child_cpu or (),
            "wait": wait or (),
            "blocked": blocked or (),
            "spawn": spawn or (),
        },
        no_gil=no_gil,
    )
    asked = _requested_layouts(layouts, grid_name)
    missing: dict[str, str] = {}
    if variant is None and asked is None:
        services, missing = model.calibrate_variants(file)
    else:
        services = [model.calibrate_file(file, variant=variant)]
    predictions = []
    for calibrated in services:
        machine = _machine(calibrated, cores, physical_cores)
        chosen = asked or _layouts(calibrated, cores, grid_name)
        try:
            what_if.check(calibrated.calibration.profile.demands)
            _check_variants(calibrated, chosen)
            check_modelled(chosen)
        except ConfigError as error:
            if len(services) == 1:
                raise
            missing[calibrated.seen.layouts[0].variant] = error.problem
            continue
        predictions.append(_predict(calibrated, machine, chosen, what_if, by))
    predicted = _of_all(predictions, missing)
    if as_json:
        shapes = {"processes_or_threads": shapes_facts(predictions)}
        typer.echo(json.dumps({**prediction_facts(predicted), **shapes}))
        return 0
    above = render_shapes(predictions, missing, predicted)
    show(render_prediction(predicted, most_rows=None if show_all else MOST_ROWS, above=above))
    return 0


def _of_all(predictions: list[Predicted], missing: Mapping[str, str]) -> Predicted:
    """Return the prediction to print by layout: without a variant, else of the best variant."""
    if not predictions:
        raise ConfigError(next(iter(missing.values())), hint="Leave the change out.")

    def most(one: Predicted) -> tuple[bool, float]:
        best = next(row for row in one.trusted.rows if row.layout == one.trusted.best)
        return not best.layout.variant, best.throughput_per_s.mean or 0.0

    return max(predictions, key=most)


def _predict(
    calibrated: Calibrated, machine: Machine, layouts: list[Layout], what_if: WhatIf, by: str
) -> Predicted:
    """Predict the layouts with the changes *what_if*, and for comparison without them."""
    from tuner.app import model
    from tuner.core.model.prediction.trust import predict_with_intervals
    from tuner.core.model.prediction.whatif import WhatIf
    from tuner.reports.model.prediction import Predicted

    calibration, found, p95 = calibrated.calibration, [], None
    profile = calibration.profile
    for change in (WhatIf(), what_if) if what_if else (what_if,):
        middle = None
        if by == "simulation":
            simulated = model.simulate_layouts(profile, machine, layouts, change)
            middle, p95 = simulated.prediction, simulated.residence_p95_s
        found.append(
            predict_with_intervals(
                profile,
                calibration.draws,
                calibration.misfit_sd,
                calibrated.seen,
                machine,
                layouts,
                what_if=change,
                middle=middle,
                term_draws=calibration.term_draws,
            )
        )
    return Predicted(
        calibrated=calibrated,
        machine=what_if.of_machine(machine),
        trusted=found[-1],
        what_if=what_if,
        today=found[0] if what_if else None,
        residence_p95_s=p95,
        by=by,
    )


def _requested_layouts(layouts: str | None, grid_name: str | None) -> list[Layout] | None:
    from tuner.core.domain.layout import GRIDS, parse_layouts

    if layouts is not None and grid_name is not None:
        raise ConfigError("--layouts and --grid are two choices", hint="Name a grid or layouts, not both.")
    if grid_name is not None and grid_name not in GRIDS:
        raise ConfigError(f"--grid {grid_name}: should be one of {', '.join(GRIDS)}")
    if layouts is None:
        return None
    try:
        return parse_layouts(layouts)
    except ConfigError as error:
        raise ConfigError(f"--layouts: {error.problem}", hint=error.hint) from error


def _layouts(calibrated: Calibrated, cores: int | None, grid_name: str | None) -> list[Layout]:
    from dataclasses import replace

    from tuner.core.domain.layout import grid_of

    if grid_name is None and cores is None and len(calibrated.measured) > 1:
        return [one.layout for one in calibrated.measured]
    like = calibrated.seen.layouts[0]
    n_cores = cores or max(1, int(calibrated.seen.machine.cores))
    found = grid_of(grid_name or "divisors", n_cores, has_threads=like.has_threads)
    return [replace(one, variant=like.variant) for one in found]


def _check_variants(calibrated: Calibrated, layouts: list[Layout]) -> None:
    """Raise ConfigError for a layout of another variant than the one that the model is calibrated on."""
    from dataclasses import replace

    known, has_threads = calibrated.seen.layouts[0].variant, calibrated.seen.layouts[0].has_threads
    for layout in layouts:
        if layout.has_threads != has_threads:
            what = "has no number of threads, but this service has threads"
            if not has_threads:
                what = "has a number of threads, but this service has none to choose"
            raise ConfigError(
                f"--layouts: {layout} {what}",
                hint="Write 8x4." if has_threads else "Write 8x-.",
            )
        if layout.variant != known:
            other = f", or try --variant {layout.variant}" if calibrated.measured and layout.variant else ""
            raise ConfigError(
                f"--layouts: {layout} is of another variant than the prediction"
                f" ({known or 'no variant'}), so its items differ",
                hint=f"Write {replace(layout, variant=known)}{other}.",
            )


def _machine(calibrated: Calibrated, cores: int | None, physical_cores: int | None) -> Machine:
    """Return the host to predict for: the measured one, with *cores* and *physical_cores* if given."""
    from dataclasses import replace

    seen = calibrated.seen.machine
    machine = (
        seen if cores is None else replace(calibrated.calibration.profile, machine=seen).machine_of(cores)
    )
    if physical_cores is None:
        return machine
    if physical_cores > machine.cores:
        raise ConfigError(
            f"--physical-cores {physical_cores}: the host has {pluralize(machine.cores, 'core')} in all",
            hint="Set the number of logical cores (with SMT) with --cores.",
        )
    same = physical_cores == machine.cores
    return replace(machine, physical_cores=None if same else float(physical_cores))
