"""Which next step follows from an answer, and whether its command is one that tuner knows."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typer.main import get_command

from tuner.adapters.virtual.service import VirtualService, virtual_study
from tuner.cli import COMMANDS
from tuner.core.domain.fleet import LOST
from tuner.core.domain.layout import parse_layout, parse_layouts
from tuner.core.domain.limits import Limit, LimitVerdict, Verdict
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Answer, Claim, RemainingTime
from tuner.core.ranking.aging import Halves, LongerLaunch
from tuner.core.ranking.next_step import RULES, next_step
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import LatencySeen, RankedLayout, Ranking
from tuner.core.ranking.step_case import SLUGS, Facts, NextStep, Wider, facts_of
from tuner.core.stats.groups import Group
from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import Noise
from tuner.core.text.safe_text import HIDDEN
from tuner.core.windows.other_processes import Others
from tuner.reports.ranking.next_step import command, remarks_on

from ..wording import key_of, wording

pytestmark = pytest.mark.pythons
LAYOUTS = "4x2,2x2,1x8"


def study(**asked: Any) -> StudyRecord:
    service = VirtualService(dict.fromkeys(parse_layouts(LAYOUTS), 1.0))
    return virtual_study(service, **{"cores": 4, "box_cores": 4.0, **asked})


def row(layout: str, group: Group | None, *, n_windows: int = 3, n_void: int = 0, **of: Any) -> RankedLayout:
    rank = None if group is None else 1
    shown = RankedLayout(
        parse_layout(layout), rank, Estimate(100.0), 1.0, 1.0, 1.0, 1.0, 0.9, 1e6, n_windows, n_void, group
    )
    return replace(shown, **of)


def ranking(*rows: RankedLayout, **of: Any) -> Ranking:
    """One where 4x2 is best and all others are slower, unless *rows* say otherwise."""
    usual = (row("4x2", "best-or-tied"), row("2x2", "slower"), row("1x8", "slower"))
    return replace(Ranking(rows or usual, 0.95, None, Noise(None, None, None)), **of)


def race(*, reached: bool = True, rest_s: float | None = None, spent_s: float = 7200.0) -> Ranking:
    """One of a race; without an answer 2x2 is not ruled out."""
    rivals = () if reached else (parse_layout("2x2"),)
    claim = Claim(
        answer=Answer(parse_layout("4x2"), reached, "strict", rivals),
        asked=parse_layouts(LAYOUTS),
        failed=(),
        unseen=(),
        within=0.02,
        confidence=0.95,
        n_windows=12,
        spent_s=spent_s,
        rest=None if rest_s is None else RemainingTime(9, rest_s),
    )
    group: Group = "slower" if reached else "not-ruled-out"
    return ranking(row("4x2", "best-or-tied"), row("2x2", group), row("1x8", "slower"), claim=claim)


def few_launches() -> Ranking:
    of = race(reached=False)
    return replace(of, rows=(of.rows[0], replace(of.rows[1], n_windows=1), of.rows[2]))


def latency(rate_per_s: float | None = None) -> LatencySeen:
    return LatencySeen(0.01, 0.05, 0.1, 1000, 0.0, rate_per_s, None)


def kept_out(state: Any) -> tuple[RankedLayout, ...]:
    limit = Limit("load", 5.0)
    verdict = Verdict(state, (LimitVerdict(limit, state, 3, 7.25, 0.01, 2.0, 0.01),))
    return tuple(row(str(one), None, verdict=verdict) for one in parse_layouts(LAYOUTS))


RACE = study(strategy="race", n_blocks=0)
NOISY = (row("4x2", "best-or-tied"), row("2x2", "not-ruled-out"), row("1x8", "slower"))
UNSEEN = (*NOISY[:1], row("2x2", None, n_windows=0, n_void=3, reason="no valid window"), NOISY[2])
FELL = LongerLaunch(
    Halves(parse_layout("4x2"), 3600.0, 100.0, 90.0), Halves(parse_layout("2x2"), 3600.0, 99.0, 99.0), 0.02
)
EDGE = Wider(parse_layout("4x2"), True, 0.04, parse_layouts("4x4,4x8"))
LOUD, QUIET = (Noise(None, None, None, Estimate(sd)) for sd in (0.175, 0.01))
BEST = parse_layout("4x2")
BUSY = Others(1.5, {BEST: 1.5}, {BEST: 0.375}, 4.0, 0.15, 0.02)

#: what is known -> the step, and its command
CASES: dict[str, tuple[StudyRecord, Ranking, dict[str, Any], str, str]] = {
    "it is being measured": (RACE, race(reached=False), {"is_held": True}, "watch", "tuner watch s.db"),
    "it fell below its rival in a longer launch": (
        RACE,
        replace(race(reached=False), longer=FELL),
        {"ending": "over"},
        "longer",
        "tuner grid --like s.db --layouts 4x2,2x2 --window 1h --min-window 1h",
    ),
    "its longer launches are left": (
        RACE,
        replace(
            race(),
            rows=(row("4x2", "best-or-tied", trend_per_h=Estimate(-0.1, -0.12, -0.08)), *race().rows[1:]),
        ),
        {"ending": "out-of-budget"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "pairs": (study(strategy="aa"), ranking(), {}, "pairs", "tuner aa s.db"),
    "pairs that were cut off": (
        study(strategy="aa", provenance=Provenance(made_by="tuner aa")),
        ranking(),
        {"ending": "cut-off"},
        "go-on",
        "tuner aa --resume s.db",
    ),
    "a check": (
        study(strategy="check", provenance=Provenance(check_of="p.db", made_by="tuner check")),
        ranking(),
        {"file": "there/s.db"},
        "check",
        "tuner check there/p.db --resume there/s.db",
    ),
    "nothing began": (RACE, ranking(), {"n_launches": 0}, "begin", "tuner grid --resume s.db"),
    "other processes": (study(), ranking(others=BUSY), {}, "disturbed", "tuner doctor"),
    "other processes, which disturb all layouts in slices equally": (
        study(n_resident=4),
        ranking(others=replace(BUSY, in_turns=True)),
        {},
        "export",
        "tuner export s.db --into RUNBOOK.md",
    ),
    "a race in slices whose budget ended beside other processes": (
        study(strategy="race", n_blocks=0, n_resident=4),
        replace(few_launches(), others=replace(BUSY, in_turns=True)),
        {"ending": "out-of-budget"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "a host that is not quiet": (
        study(),
        ranking(*UNSEEN),
        {"invalid": {"disturbed": 3, "stolen": 3}, "n_invalid": 3, "n_of_host": 3},
        "disturbed",
        "tuner doctor",
    ),
    "a layout without a valid window": (
        study(),
        ranking(*UNSEEN),
        {"invalid": {"wrong-layout": 3}, "n_invalid": 3},
        "invalid-windows",
        "tuner report s.db",
    ),
    "many invalid windows and no answer": (
        RACE,
        replace(
            race(reached=False, rest_s=600.0),
            rows=(row("4x2", "best-or-tied", n_void=2), row("2x2", "not-ruled-out", n_void=3)),
        ),
        {
            "invalid": {"source-dry": 4, "disturbed": 1},
            "n_invalid": 5,
            "n_of_host": 1,
            "ending": "out-of-budget",
        },
        "invalid-windows",
        "tuner report s.db",
    ),
    "nothing ranked": (
        study(),
        ranking(*(row(str(one), None, n_windows=0, reason="it died") for one in parse_layouts(LAYOUTS))),
        {},
        "invalid-windows",
        "tuner report s.db",
    ),
    "too few clients": (
        study(),
        ranking(row("4x2", "best-or-tied", bound_by=("connections",)), *NOISY[1:]),
        {},
        "few-clients",
        "tuner grid --like s.db --clients 64",
    ),
    "a first look": (
        study(provenance=Provenance(is_quick=True)),
        ranking(),
        {},
        "first-look",
        "tuner grid --like s.db",
    ),
    "limits that none keeps": (
        study(limits={"load": 5.0}),
        ranking(*kept_out("beyond"), limits=(Limit("load", 5.0),)),
        {},
        "limits",
        "tuner rank s.db --max-load 7.7",
    ),
    "limits that more repeats decide": (
        study(limits={"load": 5.0}),
        ranking(*kept_out("open"), limits=(Limit("load", 5.0),)),
        {"ending": "over"},
        "limits",
        "tuner grid --like s.db --repeats 6",
    ),
    "limits that may be kept": (
        study(limits={"load": 5.0}, strategy="race"),
        ranking(*kept_out("open"), limits=(Limit("load", 5.0),)),
        {"ending": "out-of-budget"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "limits that a finished race leaves open": (
        study(limits={"load": 5.0}, strategy="race"),
        ranking(*kept_out("open"), limits=(Limit("load", 5.0),)),
        {"ending": "over"},
        "limits",
        "tuner grid --like s.db",
    ),
    "limits that a race did not have": (
        study(strategy="race"),
        ranking(*kept_out("open"), limits=(Limit("memory_bytes", 8 * 2.0**30),)),
        {"ending": "cut-off"},
        "limits",
        "tuner grid --like s.db --max-memory 8388608KiB",
    ),
    "the edge of the grid": (
        study(),
        ranking(wider=EDGE),
        {},
        "edge",
        "tuner grid --like s.db --layouts 4x2,4x4,4x8",
    ),
    "larger layouts are kept out": (
        study(),
        ranking(wider=replace(EDGE, larger=(), refused="4096 threads")),
        {},
        "export",
        "tuner export s.db --into RUNBOOK.md",
    ),
    "it was cut off before its first window": (
        study(),
        ranking(*(row(x, None, n_windows=0, reason="no window was measured") for x in ("4x2", "2x2"))),
        {"ending": "cut-off"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "it was cut off, and all launches failed": (
        study(),
        ranking(*(row(x, None, n_windows=0, reason="it died at start") for x in ("4x2", "2x2"))),
        {"ending": "cut-off", "n_failed": 3},
        "invalid-windows",
        "tuner report s.db",
    ),
    "it was cut off": (
        RACE,
        race(reached=False),
        {"ending": "cut-off"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "a fixed study was cut off": (
        study(),
        ranking(),
        {"ending": "cut-off"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "the budget ended, and a night decides": (
        RACE,
        race(reached=False, rest_s=3 * 3600.0),
        {"ending": "out-of-budget"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "the budget ended, and weeks would be needed": (
        RACE,
        race(reached=False, rest_s=200 * 3600.0),
        {"ending": "out-of-budget"},
        "too-noisy",
        "tuner grid --like s.db --within 10% --layouts 4x2,2x2",
    ),
    "the budget ended after few launches": (
        RACE,
        few_launches(),
        {"ending": "out-of-budget"},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "the budget ended on a noisy host, and slices are possible": (
        RACE,
        replace(race(reached=False, rest_s=3 * 3600.0), noise=LOUD),
        {"ending": "out-of-budget", "can_slice": True},
        "slices",
        "tuner grid --like s.db --slices auto --layouts 4x2,2x2",
    ),
    "the budget ended on a noisy host, and little is left": (
        RACE,
        replace(race(reached=False, rest_s=3600.0), noise=LOUD),
        {"ending": "out-of-budget", "can_slice": True},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "the budget ended on a quiet host, and slices are possible": (
        RACE,
        replace(race(reached=False, rest_s=3 * 3600.0), noise=QUIET),
        {"ending": "out-of-budget", "can_slice": True},
        "go-on",
        "tuner grid --resume s.db",
    ),
    "a fixed study on a noisy host leaves rivals, and slices are possible": (
        study(),
        ranking(*NOISY, noise=LOUD),
        {"ending": "over", "can_slice": True},
        "too-noisy",
        "tuner grid --like s.db --strategy race --slices auto --layouts 4x2,2x2",
    ),
    "the budget ended, and nobody knows the rest": (
        RACE,
        race(reached=False),
        {"ending": "out-of-budget"},
        "too-noisy",
        "tuner grid --like s.db --within 3% --layouts 4x2,2x2",
    ),
    "no margin is large enough": (
        replace(RACE, within_ratio=0.4),
        race(reached=False),
        {"ending": "out-of-budget"},
        "too-noisy",
        "tuner doctor",
    ),
    "a fixed study that leaves rivals": (
        study(),
        ranking(*NOISY),
        {"ending": "over"},
        "too-noisy",
        "tuner grid --like s.db --strategy race --layouts 4x2,2x2",
    ),
    "latency of clients that never pause": (
        study(),
        ranking(row("4x2", "best-or-tied", latency=latency()), *NOISY[2:]),
        {},
        "latency",
        "tuner grid --like s.db --rate 70% --layouts 4x2",
    ),
    "latency that has a limit": (
        study(limits={"p95_s": 0.1}),
        ranking(row("4x2", "best-or-tied", latency=latency()), limits=(Limit("p95_s", 0.1),)),
        {},
        "latency",
        "tuner grid --like s.db --rate p95=100ms --layouts 4x2",
    ),
    "latency at a rate": (
        study(),
        ranking(row("4x2", "best-or-tied", latency=latency(100.0))),
        {},
        "export",
        "tuner export s.db --into RUNBOOK.md",
    ),
    "a model": (
        study(provenance=Provenance(simulated="web")),
        ranking(),
        {},
        "simulated",
        "tuner explain s.db",
    ),
    "the answer is in use": (
        study(),
        ranking(current=parse_layout("4x2")),
        {},
        "check-later",
        "tuner check s.db",
    ),
    "what is in use is tied": (
        study(),
        ranking(row("4x2", "best-or-tied"), row("2x2", "best-or-tied"), current=parse_layout("2x2")),
        {},
        "check-later",
        "tuner check s.db",
    ),
    "an answer": (study(), ranking(), {}, "export", "tuner export s.db --into RUNBOOK.md"),
    "an answer of a race": (RACE, race(), {}, "export", "tuner export s.db --into RUNBOOK.md"),
    "an answer beside what is in use": (
        study(),
        ranking(current=parse_layout("1x8"), limits=(Limit("memory_bytes", 1e9),), objective="throughput"),
        {},
        "export",
        "tuner export s.db --into RUNBOOK.md --current 1x8 --max-memory 976562.5KiB",
    ),
}


def step_of(record: StudyRecord, of: Ranking, **known: Any) -> NextStep:
    return next_step(record, of, Facts(**{"file": "s.db", **known}))


def parsed(words: tuple[str, ...]) -> dict[str, Any]:
    """What tuner's own command line makes of *words*, which are not run."""
    (known,) = (one for one in COMMANDS if one.name == words[1])
    arguments = list(words[2:])
    if "--" in arguments:
        at = arguments.index("--")
        arguments[at:] = ["--command", shlex.join(arguments[at + 1 :])]
    with get_command(known.load()).make_context(known.name, arguments) as context:
        return dict(context.params)


@pytest.mark.parametrize("can_slice", [True, False])
def test_a_disturbed_host_is_offered_slices_if_the_layouts_can_take_turns(can_slice: bool) -> None:
    step = next_step(study(), ranking(others=BUSY), Facts("s.db", can_slice=can_slice))

    assert step.slug == "disturbed"
    assert ("--slices auto" in step.sentence) is can_slice


@pytest.mark.parametrize(
    ("changes", "others", "said"),
    [
        ({"n_resident": 4}, replace(BUSY, in_turns=True), wording("rank.usable-as-busy")),
        ({"n_resident": 4}, replace(BUSY, lost={BEST: 0.0}, in_turns=True), wording("rank.usable-now")),
        ({"cores": 8, "box_cores": 4.0}, None, wording("rank.usable-once-confirmed")),
        ({}, None, wording("rank.usable-now")),
    ],
    ids=key_of,
)
def test_an_answer_is_to_be_used_only_where_it_holds(
    changes: dict[str, Any], others: Others | None, said: str
) -> None:
    step = next_step(study(**changes), ranking(others=others), Facts("s.db"))

    assert step.slug == "export"
    assert step.sentence.startswith(said)


@pytest.mark.parametrize("case", CASES)
def test_a_study_has_one_next_step(case: str) -> None:
    record, of, known, slug, typed = CASES[case]

    step = step_of(record, of, **known)

    assert (step.slug, command(step)) == (slug, typed)


@pytest.mark.parametrize("case", CASES)
def test_the_command_of_a_step_is_one_that_tuner_knows(case: str) -> None:
    record, of, known, *_ = CASES[case]

    step = step_of(record, of, **known)

    assert step.words[0] == "tuner"
    assert parsed(step.words)
    assert step.sentence.endswith(":")
    assert step.sentence[0].isupper() or step.sentence[0].isdigit()


def test_every_slug_has_a_case() -> None:
    assert {slug for *_, slug, _ in CASES.values()} == set(SLUGS)
    assert len({rule.__name__ for rule in RULES}) == len(RULES)


#: both at once -> which comes first
PRIORITIES: list[tuple[str, Callable[[Ranking], Ranking], str]] = [
    ("disturbed", lambda one: replace(one, others=BUSY, wider=EDGE), "doubtful figures come first"),
    ("edge", lambda one: replace(one, wider=EDGE), "the wrong question before an uncertain answer"),
]


@pytest.mark.parametrize(("slug", "changed", "why"), PRIORITIES)
def test_doubt_comes_before_scope_and_scope_before_certainty(
    slug: str, changed: Callable[[Ranking], Ranking], why: str
) -> None:
    assert step_of(RACE, changed(race(reached=False)), ending="out-of-budget").slug == slug, why


def test_a_few_invalid_windows_are_no_step_where_there_is_an_answer() -> None:
    of = replace(race(), rows=(row("4x2", "best-or-tied", n_void=9), row("2x2", "slower")))

    assert step_of(RACE, of, invalid={"disturbed": 9}, n_invalid=9, n_of_host=9).slug == "export"


def secret(provenance: Provenance) -> StudyRecord:
    return study(config=StoredConfig.of_sections({"service": {"url": HIDDEN}}), provenance=provenance)


@pytest.mark.parametrize(
    ("provenance", "typed", "n_remarks"),
    [
        (Provenance(), "tuner grid CONFIG --like s.db --layouts 4x2,4x4,4x8", 2),
        (Provenance(config_file="web.yaml"), "tuner grid web.yaml --like s.db --layouts 4x2,4x4,4x8", 1),
        (Provenance(is_command_typed=True), "tuner grid --like s.db --layouts 4x2,4x4,4x8 -- COMMAND", 2),
    ],
)
def test_a_study_that_keeps_no_secrets_needs_its_config_or_command_again(
    provenance: Provenance, typed: str, n_remarks: int
) -> None:
    step = step_of(secret(provenance), ranking(wider=EDGE))

    assert command(step) == typed
    assert len(remarks_on(secret(provenance), step)) == n_remarks
    assert parsed(step.words)


def test_a_check_takes_the_command_as_a_config() -> None:
    step = step_of(secret(Provenance(is_command_typed=True)), ranking(current=parse_layout("4x2")))

    assert command(step) == "tuner check s.db CONFIG"
    assert "tuner init" in remarks_on(secret(Provenance(is_command_typed=True)), step)[0]


def test_a_fleet_has_to_be_named() -> None:
    record = study(provenance=Provenance(is_fleet=True))
    step = step_of(record, ranking(wider=EDGE))

    assert command(step).endswith("--fleet ADDRESS")
    assert remarks_on(record, step) == ["ADDRESS is the address of the fleet's scheduler."]


def test_launches_that_failed_are_reported_from_those_that_were_lost_or_cut_off() -> None:
    launch = LaunchRecord(0, 0, 1, parse_layout("4x2"), "box-1", 0.0, None, None, None)
    errors = (None, f"{LOST}: its worker is gone", "4x2 died at start")
    launches = [(n, replace(launch, error=error)) for n, error in enumerate(errors)]
    overview = Overview("s.db", study(), ranking(), launches, [], "no model", is_over=False)

    facts = facts_of(overview, "s.db")

    assert (facts.n_launches, facts.n_failed, facts.ending) == (3, 1, "cut-off")
