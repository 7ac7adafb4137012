"""The use case of `tuner check`: measure again whether the result of a study still holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app import plan_builder, study_queries
from tuner.app.layouts_in_turns import n_layouts_in_turns
from tuner.app.session import check_same_kind, load_request, new_session, original_options, resume_session
from tuner.bootstrap import stores
from tuner.config.load import Given
from tuner.config.profile import stored_profile
from tuner.core.defaults import SHORTEST_IN_TURNS_S
from tuner.core.domain.records import is_simulated
from tuner.core.domain.strategy import Proposal
from tuner.core.errors import ConfigError
from tuner.core.messages.study import slices_were_wrong
from tuner.core.text.safe_text import visible
from tuner.study.counted import left_out
from tuner.study.recheck_plan import check_study, read_check, read_past, recheck_of, recheck_options
from tuner.study.timetable import check_budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say, Session
    from tuner.core.domain.layout import Layout
    from tuner.core.domain.records import StudyRecord, WindowRecord
    from tuner.core.domain.strategy import Kind, Slices, Strategy
    from tuner.core.search.recheck import Checked

#: items per window of layouts that take turns; the number then varies by a few percent
ITEMS_IN_TURNS = 500.0


def begin_check(
    study: Path,
    config: Path | None,
    say: Say,
    *,
    current: Layout | None,
    window_s: float | None,
    warmup_cap_s: float | None,
    budget_s: float | None,
    kind: Kind,
    foreign_limit: float | None,
    slices: Slices | None,
    to: Path | None,
    simulate: Path | None,
) -> Session:
    """Begin a check of the result of *study*: its winner, its runner-up and the layout in use.

    Args:
        study: the file of the study.
        config: its config, which is needed where it holds secrets.
        current: the layout in use; None: it is not measured.
        window_s: length of a window; None: as in the study.
        warmup_cap_s: the longest warm-up; None: as in the study.
        budget_s: the longest time to measure.
        kind: whether the study's own windows count as evidence.
        foreign_limit: as ``--foreign-limit``; None: as in the study.
        slices: whether layouts take turns where the service allows it; None: as in the study.
        to: the file of the check; None: the next free name next to the study.
        simulate: the profile to simulate; None: as the study was made.

    Raises:
        ConfigError: the study ranks no layout, this is another host, or the file exists.
    """
    parent, ranking = study_queries.rank_file(study)
    check_same_kind(parent, study, simulate)
    own_profile = stored_profile(parent, study) if is_simulated(parent) else None
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
    settings, profile = load_request(config, options, simulate, profile=own_profile)
    if profile is None:
        plan_builder.check_same_box(parent, study, say)
    if config is None:
        settings = plan_builder.stored_settings(parent, study, f"tuner check {study} CONFIG")
    typed = options if config is not None else original_options(parent)
    now = plan_builder.build_plan(settings, profile, typed, say)
    if foreign_limit is not None:
        now = replace(now, foreign_limit_cores=foreign_limit)
    if warmup_cap_s is not None:
        now = replace(now, warmup_cap_s=warmup_cap_s)
    with stores.open_store(study, read_only=True) as store:
        others = left_out(store)
        windows = [window for window in store.windows() if window.launch_id not in others]
    record = check_study(
        parent,
        now,
        ranked=ranked,
        current=current,
        window_s=window_s,
        budget_s=budget_s,
        kind=kind,
        parent_name=visible(study.name),
        windows=windows,
    )
    as_in_study = slices is None and (parent.n_resident > 1 or settings.study.slices == "auto")
    if as_in_study and ranking.claim is not None and not ranking.claim.answer.counts_slices:
        say(f"Layouts run one after the other. {slices_were_wrong(visible(study.name))}")
        as_in_study = False
    if slices == "auto" or as_in_study:
        n_resident = n_layouts_in_turns(
            settings, say, is_simulated=profile is not None, n_layouts=len(record.layouts)
        )
        record = replace(record, n_resident=n_resident)
        if n_resident > 1 and window_s is None:
            record = replace(record, window_s=_window_in_turns_s(record, windows))
    if profile is not None:
        plan_builder.check_simulated(record.layouts)  # --current may name any
    check_budget(record, [Proposal(layout, record.window_s) for layout in record.layouts])
    file = _free_name(study) if to is None else to
    return new_session(settings, plan_builder.another_stream(record, visible(file.name)), file, option="--to")


def resumed_check(study: Path, config: Path | None, file: Path, say: Say, simulate: Path | None) -> Session:
    """Continue the check of *study* in *file*.

    Raises:
        ConfigError: it is a check of another study, or cannot continue here.
    """
    session = resume_session(file, config, {}, made_by="tuner check", say=say, simulate=simulate)
    with stores.open_store(study, read_only=True) as store:
        created = repr(store.study().created_wall_s)
    provenance = session.record.provenance
    if provenance.check_of_created != created:
        raise ConfigError(
            f"{file} is a check of another study, {provenance.check_of}, not of {study}",
            hint="Name that one.",
        )
    return session


def check_strategy(study: Path, record: StudyRecord) -> Strategy:
    """Return the strategy of the check *record*, with the earlier results of *study*."""
    with stores.open_store(study, read_only=True) as parent:
        return recheck_of(record, read_past(parent, recheck_options(record)))


def read_check_of(study: Path, file: Path) -> tuple[StudyRecord, Checked]:
    """Read the findings of the check in *file* of *study*."""
    with (
        stores.open_store(study, read_only=True) as parent,
        stores.open_store(file, read_only=True) as store,
    ):
        return store.study(), read_check(parent, store)


def _window_in_turns_s(record: StudyRecord, windows: Sequence[WindowRecord]) -> float:
    """Return a window length, in seconds, with `ITEMS_IN_TURNS` items of each layout at the rates of
    *windows*; at most the length that the check would have without turns.
    """
    needed_s = SHORTEST_IN_TURNS_S
    for layout in record.layouts:
        own = [one for one in windows if one.layout == layout and not one.void]
        if n_done := sum(one.n_done for one in own):
            needed_s = max(needed_s, ITEMS_IN_TURNS * sum(one.length_s for one in own) / n_done)
    return min(record.window_s, round(needed_s, 1))


def _free_name(study: Path) -> Path:
    """Return the first unused numbered file name next to the study."""
    stem = study.name.removesuffix(".db").removesuffix(".tuner")
    number = 1
    while (found := study.with_name(f"{stem}.check-{number}.tuner.db")).exists():
        number += 1
    return found
