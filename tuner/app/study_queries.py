"""Queries of a study file: its ranking, and the bottleneck of each layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.collection import pause_collection
from tuner.bootstrap.stores import open_store
from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.errors import ConfigError
from tuner.ports import Store
from tuner.study.aging import memory_growth

if TYPE_CHECKING:
    from tuner.core.domain.limits import Verdict
    from tuner.core.domain.live import Live
    from tuner.core.model.diagnosis.explanation import Explanation
    from tuner.core.model.diagnosis.sizing import Rule
    from tuner.core.ranking.aging import LongerLaunch
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranked import Ranking, RankingOptions
    from tuner.core.ranking.step_case import NextStep
    from tuner.core.windows.launch_sums import Sums
    from tuner.study.strategy_driver import Recalled

_ANOTHER_QUESTION = (
    "This ranking uses another objective or other limits than the race. The race did not choose its launches"
    " for this question, and its model does not estimate these figures, so they may differ a little."
)
_OTHER_BOXES = (
    "The result of the race is for all its hosts. This ranking uses some of them, so the race did not choose"
    " these launches for this question."
)


@pause_collection()
def rank_file(
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
) -> tuple[StudyRecord, Ranking]:
    """Return the study in *file* and its ranking; every row is compared with the layout *current*.

    *confidence* and *question* (objective, limits, costs) default to those of the study. The result of a race
    holds only for its own question; for any other question its launches are ranked without that result.

    Raises:
        ConfigError: the study is a race with another confidence.
    """
    from tuner.core.ranking.ranked import RankingOptions

    with open_store(file, read_only=True) as store:
        asked = question or RankingOptions()
        seen = rank_store(store, file, current=current, confidence=confidence, question=asked)
        step = _next_step(store, file, seen, is_held=live_now(file)[1])
    return seen.record, replace(seen.ranking, next_step=step)


def _next_step(store: Store, file: Path, seen: RankedStudy, *, is_held: bool) -> NextStep:
    from tuner.core.ranking.aging import is_changing
    from tuner.core.ranking.next_step import next_step
    from tuner.core.ranking.step_case import OF_HOST, Facts
    from tuner.reports.documents.plain import file_word

    ending, ranking = None, seen.ranking
    n_asked = len(seen.record.layouts) * seen.record.n_blocks * seen.record.windows_per_launch
    is_short = sum(row.n_windows for row in ranking.rows) < n_asked
    if is_short if ranking.claim is None else not ranking.claim.answer.reached or is_changing(ranking):
        known = seen.known or _recall_race(store)
        ending = None if known is None else known.ending()
    invalid: Counter[str] = Counter()
    for one in seen.sums.void:
        invalid.update(one.reasons)
    facts = Facts(
        file_word(str(file)),
        ending,
        is_held,
        invalid,
        seen.n_launches,
        n_invalid=sum(one.n_windows for one in seen.sums.void),
        # a window may have two of these reasons, so the number of its launch's windows is the limit
        n_of_host=sum(
            min(one.n_windows, sum(one.reasons[slug] for slug in OF_HOST)) for one in seen.sums.void
        ),
        can_slice=_can_slice(seen, file),
    )
    return next_step(seen.record, ranking, facts)


@pause_collection()
def overview(
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
) -> Overview:
    """Return a consistent overview of the study in *file*; arguments as for `rank_file`."""
    with open_store(file, read_only=True) as store:
        return overview_of(store, file, current=current, confidence=confidence, question=question)


def overview_of(
    store: Store,
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
    sums: Sums | None = None,
) -> Overview:
    """Return the overview of an open *store* of *file*; *sums*: its window sums, None: read from it."""
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranked import RankingOptions

    question = question or RankingOptions()
    live, is_held = live_now(file)
    known = _recall_race(store)
    seen = rank_store(
        store, file, current=current, confidence=confidence, question=question, known=known, sums=sums
    )
    ending = None if known is None else known.ending()
    return Overview(
        name=file.name,
        study=seen.record,
        ranking=seen.ranking,
        launches=store.launches(),
        windows=store.windows(),
        explanation=seen.explanation,
        rules=rules_of(seen.explanation, None),
        live=live,
        is_held=is_held,
        is_over=None if ending is None else ending == "over",
        rest_s=None if known is None or known.rest is None else known.rest.lasts_s,
        is_spent=ending == "out-of-budget",
        can_slice=_can_slice(seen, file),
        boxes=store.boxes(),
    )


def _can_slice(seen: RankedStudy, file: Path) -> bool:
    """Return whether slices would help a study that had none; only then its settings are read."""
    from tuner.core.ranking.step_case import is_noisy

    others = seen.ranking.others
    is_disturbed = (others is not None and others.is_no_evidence) or bool(seen.sums.void)
    if not is_disturbed and not is_noisy(seen.ranking):
        return False
    from tuner.app.layouts_in_turns import can_slice

    return can_slice(seen.record, file)


def live_now(file: Path) -> tuple[Live | None, bool]:
    """Return the live state of the study in *file* (None: unknown), and whether a tuner writes the file."""
    from tuner.adapters.sqlite.study_file import is_held
    from tuner.adapters.terminal.live_file import read_live

    try:
        held = is_held(file)
    except OSError:
        return None, False  # opening the file reports the error
    return (read_live(file), True) if held else (None, False)


def study_stamp(file: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return a value that changes whenever the study in *file* is written."""
    return tuple(_stamp(path) for path in (file, Path(f"{file.resolve()}-wal")))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _recall_race(store: Store) -> Recalled | None:
    """Replay the study in *store* through its strategy; None: a check, which needs a second file."""
    from tuner.core.search.strategies.of_study import NAMES

    if (record := store.study()).strategy == "aa":
        from tuner.study.pilot_run import pairs_strategy
        from tuner.study.strategy_driver import replay_study as recalled_by

        return recalled_by(store, pairs_strategy(record))
    return replay_study(store) if record.strategy in NAMES else None


@dataclass(frozen=True, slots=True)
class RankedStudy:
    """A study, its ranking, and the data behind it."""

    record: StudyRecord
    ranking: Ranking
    explanation: Explanation | str  #: bottlenecks of the layouts, or the reason why they are not known
    sums: Sums
    n_launches: int
    known: Recalled | None  #: state of a race; None: its strategy was not restored


def rank_store(
    store: Store,
    file: Path,
    *,
    current: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
    known: Recalled | None = None,
    sums: Sums | None = None,
) -> RankedStudy:
    """Return the ranking of an open *store* of *file*, and its explanation; arguments of `overview_of`."""
    from tuner.core.domain.strategy import Comparing
    from tuner.core.ranking.race_result import by_claim
    from tuner.core.ranking.ranked import RankingOptions
    from tuner.core.ranking.ranking import rank
    from tuner.core.ranking.step_case import wider_than
    from tuner.core.text.figures import percent
    from tuner.study.aging import longer_launch_result
    from tuner.study.counted import counted_sums

    record, question = store.study(), question or RankingOptions()
    layout = parse_measured_layout(current, record, file) if current is not None else None
    is_race = record.strategy == "race"
    if is_race and confidence is not None and confidence != record.confidence:
        own = percent(record.confidence)
        raise ConfigError(
            f"cannot use --confidence {percent(confidence)}: the race in {file} has {own}",
            hint="Leave --confidence out.",
        )
    everything = sums = store.sums() if sums is None else sums
    if is_race and record.n_resident > 1:
        known = known or replay_study(store)
    if is_race:
        sums = counted_sums(store, sums, known)
    seen = _of_boxes(store, question, sums, known)
    if question.within is not None and not question.costs and not seen.is_of_boxes:
        raise ConfigError(
            "--within needs --costs, or a fleet: it is the margin within which layouts are equivalent",
            hint="Add --costs load,memory. The margin of a race's answer is that of `tuner grid --within`.",
        )
    level, horizon_s = confidence or record.confidence, question.horizon_of(record)
    ranking = rank(
        record,
        seen.sums,
        current=layout,
        confidence=level,
        launches=seen.launches,
        objective=question.objective_of(record),
        limits=question.limits_of(record),
        costs=question.costs,
        within=question.within_of(record),
        growth=memory_growth(store, everything, level, horizon_s),
    )
    ranking = replace(ranking, horizon_s=horizon_s)
    explanation = explanation_of(record, seen.sums, ranking.verdicts)
    ranking = replace(_with_bound_by(ranking, explanation), notes=(*seen.notes, *ranking.notes))
    if is_race and seen.is_part:
        ranking = replace(ranking, notes=(_OTHER_BOXES, *ranking.notes))
    elif is_race and not question.is_of(record):
        ranking = replace(ranking, notes=(_ANOTHER_QUESTION, *ranking.notes))
    elif is_race:
        known = known or replay_study(store)
        claim, strategy = known.claim(), known.strategy
        if ranking.starved:  # the load was too small, so the result of the race does not hold
            claim = replace(claim, answer=replace(claim.answer, reached=False), rest=None)
        beside = strategy.beside(layout) if layout is not None and isinstance(strategy, Comparing) else None
        ranking = by_claim(ranking, claim, strategy.estimates(), beside)
        if ranking.is_answer_kept_out:  # the race checked the memory of each window, not its growth
            claim = replace(claim, answer=replace(claim.answer, reached=False), rest=None)
            ranking = replace(ranking, claim=claim)
        ranking = _with_longer(ranking, longer_launch_result(store, everything, known.strategy.answer()))
    if not isinstance(explanation, str):
        explanation = explanation.with_throughput(ranking.throughput_per_s)
        ranking = replace(ranking, wider=wider_than(record, ranking, explanation.diagnoses))
    return RankedStudy(record, ranking, explanation, seen.sums, len(store.launches()), known)


def _with_longer(ranking: Ranking, longer: LongerLaunch | None) -> Ranking:
    """Add the longer launches; if they show another layout ahead, the answer is withdrawn."""
    claim = ranking.claim
    if claim is not None and longer is not None and longer.rival is not None and longer.is_overtaken:
        answer = replace(claim.answer, reached=False, fell_below=longer.rival.layout)
        claim = replace(claim, answer=answer, rest=None)
    return replace(ranking, longer=longer, claim=claim)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The measurements on the selected hosts."""

    sums: Sums
    launches: Sequence[LaunchRecord]
    notes: tuple[str, ...] = ()
    is_part: bool = False  #: whether some hosts are left out
    is_of_boxes: bool = False  #: whether the figures are from several hosts


def _of_boxes(store: Store, question: RankingOptions, sums: Sums, known: Recalled | None) -> _Seen:
    from tuner.core.domain.fleet import is_fleet
    from tuner.core.ranking.ranked import selected_boxes
    from tuner.study.counted import judged_launches

    launches = judged_launches(store, known)
    fleet = [box.name for box in store.boxes()]
    names = list(dict.fromkeys([*fleet, *(launch.box for _, launch in store.launches())]))
    asked = selected_boxes(question, names)
    is_part = len(asked) < len(names)
    if is_part:
        sums = sums.on(asked)
        launches = [launch for launch in launches if launch.box in asked]
    if not (is_fleet(store.study()) or is_part):
        return _Seen(sums, launches)
    counting = {one.block[0] for one in sums.launches}
    alone = tuple(
        f"This result is for {box} only. It does not include differences between hosts." for box in counting
    )
    return _Seen(sums, launches, alone if len(alone) == 1 else (), is_part, is_of_boxes=len(alone) > 1)


def replay_study(store: Store) -> Recalled:
    """Replay all windows of *store* through the study's strategy, and return it with the totals."""
    from tuner.core.domain.fleet import is_fleet
    from tuner.core.search.strategies.of_study import spreading_strategy_of, strategy_of
    from tuner.study.fleet.places import replay_fleet
    from tuner.study.strategy_driver import replay_study

    if is_fleet(record := store.study()):
        return replay_fleet(store, spreading_strategy_of(record))
    return replay_study(store, strategy_of(record))


def rules_of(found: Explanation | str, cores: float | None) -> Sequence[Rule]:
    """Return sizing rules of the service for *cores* (None: the study's cores); empty: no explanation.

    The rules of the fastest layout's variant come first.
    """
    if isinstance(found, str):
        return ()
    from tuner.core.model.diagnosis.sizing import resize, sizing_rules

    rules: list[Rule] = []
    for variant in dict.fromkeys(one.layout.variant for one in found.diagnoses):
        if (of := found.references.get(variant)) is None:
            continue
        wanted = of.machine if cores is None else resize(of.machine, cores)
        own = sizing_rules(of.demands, wanted, found.known_of(variant))
        rules += [replace(rule, variant=variant) for rule in own]
    return rules


def parse_measured_layout(text: str, record: StudyRecord, file: Path) -> Layout:
    """Parse *text* as a layout of the study *record* in *file*; ConfigError if the study lacks it."""
    layout = parse_layout(text)
    if layout not in record.layouts:
        raise ConfigError(
            f"{layout} is not among the layouts of {file}",
            hint=f"Those are {', '.join(map(str, record.layouts))}.",
        )
    return layout


def _with_bound_by(ranking: Ranking, found: Explanation | str) -> Ranking:
    """Return *ranking* with the bottlenecks of its layouts, or the reason why they are unknown."""
    from tuner.core.model.diagnosis.evidence import NO_WINDOWS

    if not isinstance(found, str):
        return ranking.with_bound_by(found.bound_by, None)
    return ranking.with_bound_by({}, found if found != NO_WINDOWS else None)  # reported elsewhere


def explanation_of(
    record: StudyRecord, sums: Sums, verdicts: Mapping[Layout, Verdict | None]
) -> Explanation | str:
    """Return the bottlenecks of the layouts, or why unknown; *verdicts*: their results against limits."""
    from tuner.core.model.diagnosis.evidence import evidence_of, why_unknown

    seen = evidence_of(record, sums, verdicts)
    if not seen:
        return why_unknown(sums)
    from tuner.core.model.diagnosis.explanation import explain, gils_of, machine_of

    return explain(seen, machine_of(record), gils=gils_of(record))
