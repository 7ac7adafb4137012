"""tuner check: whether the answer of a study still holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import CUT_OFF, EXIT_NOTHING, EXIT_WEAKER
from tuner.cli.shared.completions import layouts_of_study, one_of
from tuner.cli.shared.options import (
    FILE,
    AsJson,
    MetricsAddress,
    MetricsFile,
    MetricsOpen,
    Resume,
    Simulate,
    setting,
)
from tuner.core.errors import ConfigError, StaleReport

if TYPE_CHECKING:
    from tuner.cli.shared.option_parsing import Options
    from tuner.cli.shared.session import Session
    from tuner.core.domain.strategy import Kind
    from tuner.core.search.recheck import Checked

_BUDGET = "2h"
_KINDS: dict[str, Kind] = {"calibrated": "calibrated", "strict": "strict"}

_WHAT = "Layouts"


def check(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="Study file that `tuner grid` wrote. It is not changed.")
    ],
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            readable=False,
            help=(
                "Config in YAML. Required if the study's config holds secrets, because study files do "
                "not store them."
            ),
        ),
    ] = None,
    current: Annotated[
        str | None,
        typer.Option(
            metavar="PxT",
            autocompletion=layouts_of_study,
            rich_help_panel=_WHAT,
            help="Layout in use, to measure in addition to winner and runner-up.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            autocompletion=one_of("calibrated", "strict"),
            rich_help_panel=_WHAT,
            help=(
                "Evidence. calibrated: the study's result and the new measurements; strict: only the new "
                "measurements (default: calibrated)."
            ),
        ),
    ] = None,
    foreign_limit: Annotated[
        float | None,
        typer.Option(
            metavar="CORES",
            rich_help_panel=_WHAT,
            help="Most CPU, in cores, that other processes may use in a valid window.",
        ),
    ] = None,
    budget: Annotated[str | None, setting("budget", "Longest time to measure (default: 2h).")] = None,
    window: Annotated[str | None, setting("window", "Length of a window (default: as in the study).")] = None,
    warmup_cap: Annotated[str | None, setting("warmup_cap")] = None,
    simulate: Simulate = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FILE",
            rich_help_panel=FILE,
            help="File for the new measurements (default: STUDY.check-1.tuner.db, then -2, ...).",
        ),
    ] = None,
    resume: Resume = None,
    metrics: MetricsAddress = None,
    metrics_file: MetricsFile = None,
    metrics_open: MetricsOpen = False,
    as_json: AsJson = False,
) -> int:
    """Measure a study's winner, runner-up and layout in use again, to check whether the winner is still best.

    tuner measures these layouts in blocks until the answer is clear. The exit code is 0 if no other layout is
    better by more than the study's margin, and 4 if one is. It is 5 if this is not yet clear.

    Example: tuner check crash-processor.tuner.db --current 24x1 --budget 1h
    """
    from tuner.bootstrap import stores
    from tuner.bootstrap.parts.metrics import metrics_asked
    from tuner.cli.shared.option_parsing import check_as_it_is
    from tuner.cli.shared.output import say
    from tuner.cli.shared.session import go_on, measured
    from tuner.config.fields import LARGEST_FIGURE
    from tuner.study.recheck_plan import asked_of, read_past, recheck_of

    if kind is not None and kind not in _KINDS:
        raise ConfigError(f"--kind {kind}: should be {' or '.join(_KINDS)}")
    if foreign_limit is not None and not 0 < foreign_limit <= LARGEST_FIGURE:
        raise ConfigError(
            f"--foreign-limit {foreign_limit:g}: should be a number of cores greater than 0, at most"
            f" {LARGEST_FIGURE:g}"
        )
    told = metrics_asked(metrics, metrics_file, is_open=metrics_open)
    if resume is not None:
        of_new = {
            "current": current,
            "kind": kind,
            "foreign-limit": foreign_limit,
            "budget": budget,
            "window": window,
            "warmup-cap": warmup_cap,
            "to": to,
        }
        check_as_it_is(resume, of_new)
        session = _resumed(study, config, resume, simulate)
    else:
        session = _new(
            study,
            config,
            current=current,
            window_s=_seconds("--window", window),
            warmup_cap_s=_seconds("--warmup-cap", warmup_cap),
            budget_s=_seconds("--budget", budget or _BUDGET),
            kind=_KINDS[kind or "calibrated"],
            foreign_limit=foreign_limit,
            to=to,
            simulate=simulate,
        )
    with stores.open_store(study, read_only=True) as parent:
        past = read_past(parent, asked_of(session.record))
    code, _ = measured(session, recheck_of(session.record, past), told)
    if not session.file.exists() or code == EXIT_NOTHING:
        return code
    checked = _shown(study, session.file, as_json=as_json)
    say(f"Kept in {session.file}")
    may_be_decided = checked.check.state == "open" and not checked.check.is_beyond_foreseeing
    if code in CUT_OFF or may_be_decided:
        go_on(session, f"tuner check {study}", simulate)
    if code in CUT_OFF:
        return code
    return {"right": 0, "stale": StaleReport.exit_code, "open": EXIT_WEAKER}[checked.check.state]


def _new(
    study: Path,
    config: Path | None,
    *,
    current: str | None,
    window_s: float | None,
    warmup_cap_s: float | None,
    budget_s: float | None,
    kind: Kind,
    foreign_limit: float | None,
    to: Path | None,
    simulate: Path | None,
) -> Session:
    from dataclasses import replace

    from tuner.bootstrap import plan_builder, stores, study_queries
    from tuner.bootstrap.plan_builder import check_simulated
    from tuner.cli.shared.option_parsing import asked_for, told_of
    from tuner.cli.shared.output import say
    from tuner.cli.shared.session import begun_by, check_same_kind, new_session, planned
    from tuner.config.load import Given
    from tuner.core.domain.layout import parse_layout
    from tuner.core.domain.simulated import is_simulated
    from tuner.core.domain.strategy import Proposal
    from tuner.reports.text.visible import visible
    from tuner.study import check_budget
    from tuner.study.recheck_plan import check_study

    layout = None
    if current is not None:
        with told_of("--current"):
            layout = parse_layout(current)
    parent, ranking = study_queries.ranked(study)
    check_same_kind(parent, study, simulate)
    own_profile = plan_builder.profile_kept(parent, study) if is_simulated(parent) else None
    ranked = [row.layout for row in ranking.rows if row.rank is not None]
    if not ranked:
        raise ConfigError(
            f"{study} ranks no layout, so there is no result to check",
            hint=f"tuner rank {study} prints the reason.",
        )
    if ranking.claim is not None and not ranking.claim.answer.reached:
        say(f"{study} has no final result yet; tuner checks {ranked[0]}, the fastest so far.")
    cores: Options = {("study", "cores"): Given(str(study), f"{parent.box_cores:g}")}
    options = cores if own_profile is not None else {}
    settings, profile = asked_for(config, options, simulate, profile=own_profile)
    if profile is None:
        plan_builder.check_same_box(parent, study, say)
    if config is None:
        settings = plan_builder.settings_kept(parent, study, f"tuner check {study} CONFIG")
    now = planned(settings, profile, options if config is not None else begun_by(parent))
    if foreign_limit is not None:
        now = replace(now, foreign_limit_cores=foreign_limit)
    if warmup_cap_s is not None:
        now = replace(now, warmup_cap_s=warmup_cap_s)
    with stores.open_store(study, read_only=True) as store:
        windows = store.windows()
    record = check_study(
        parent,
        now,
        ranked=ranked,
        current=layout,
        window_s=window_s,
        budget_s=budget_s,
        kind=kind,
        parent_name=visible(study.name),
        windows=windows,
    )
    if profile is not None:
        check_simulated(record.layouts)  # --current may name any
    check_budget(record, [Proposal(layout, record.window_s) for layout in record.layouts])
    file = _free_name(study) if to is None else to
    return new_session(settings, plan_builder.another_stream(record, visible(file.name)), file, option="--to")


def _resumed(study: Path, config: Path | None, file: Path, simulate: Path | None) -> Session:
    from tuner.bootstrap import stores
    from tuner.cli.shared.session import resumed_session

    session = resumed_session(file, config, {}, made_by="tuner check", simulate=simulate)
    with stores.open_store(study, read_only=True) as store:
        created = repr(store.study().created_wall_s)
    provenance = session.record.provenance
    if provenance.get("check_of_created") != created:
        raise ConfigError(
            f"{file} is a check of another study, {provenance.get('check_of')}, not of {study}",
            hint="Name that one.",
        )
    return session


def _shown(study: Path, file: Path, *, as_json: bool) -> Checked:
    """Print what the check in *file* has found."""
    from tuner.bootstrap import stores
    from tuner.cli.shared.output import echo
    from tuner.reports.check import check_facts, render_check
    from tuner.study.recheck_plan import read_check

    with (
        stores.open_store(study, read_only=True) as parent,
        stores.open_store(file, read_only=True) as store,
    ):
        record, checked = store.study(), read_check(parent, store)
    echo(record, render_check(checked), check_facts(checked), as_json=as_json)
    return checked


def _free_name(study: Path) -> Path:
    """Beside the study, the first number that is free."""
    stem = study.name.removesuffix(".db").removesuffix(".tuner")
    number = 1
    while (found := study.with_name(f"{stem}.check-{number}.tuner.db")).exists():
        number += 1
    return found


def _seconds(option: str, text: str | None) -> float | None:
    from tuner.cli.shared.option_parsing import told_of
    from tuner.core.text.durations import parse_duration

    if text is None:
        return None
    with told_of(option):
        seconds = parse_duration(text)
    if seconds <= 0:
        raise ConfigError(f"{option} {text}: should be longer than 0")
    return seconds
