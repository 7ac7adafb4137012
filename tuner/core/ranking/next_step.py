"""The next step after a study's answer, with its command: all rules.

The rules are tried in the order of `RULES`, and the first that applies is the step:

1. The kind of file: a running study is watched, a check and a layout compared with itself have separate
   answers, a study without a launch has to begin.
2. Doubtful figures: other processes, layouts without a valid window, too few clients, windows of a first
   look. Until that is fixed, longer or further measurements do not help.
3. Another question: no layout keeps the limits, or the answer is the largest layout and still waits. More
   certainty about layouts that are all too small is worth nothing.
4. An uncertain answer: slices may save time, the study can continue, or the margin is too small.
5. Open points of an answer: latency under the load of production, or any real measurement.
6. A good answer is used, and checked later.

A step is one command that runs as printed, for a study's file in any folder. Only a secret, which the file
does not keep, and the address of a fleet have to be filled in.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from pathlib import PurePosixPath

from tuner.core.domain.limits import limits_from
from tuner.core.domain.records import StudyRecord, is_simulated, resume_arguments
from tuner.core.domain.safety_limits import OPTIONS, WORDS, render_level
from tuner.core.ranking.aging import measure_for_longer, race_in_long_windows, race_without_leaks
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.step_case import (
    OF_HOST,
    Case,
    Facts,
    NextStep,
    amount_above,
    config_again,
    has_too_many_invalid,
    is_noisy,
    is_nothing_ranked,
    layouts_option,
    nearest_to_limits,
    options_again,
    upper_usage,
)
from tuner.core.text.figures import list_names, percent, pluralize, render_exact_duration, render_rest

PATIENCE_S = 12 * 3600.0  #: longest rest worth measuring: a night; with a longer one the study is too noisy
SLICES = ("--slices", "auto")
FEW_LAUNCHES = 3  #: fewer launches of a layout give little information on the noise
MARGINS = (0.03, 0.05, 0.1, 0.15, 0.2, 0.3)  #: larger margins that are proposed


def next_step(study: StudyRecord, ranking: Ranking, facts: Facts) -> NextStep:
    """Return the next step; there is always one."""
    case = Case(study, ranking, facts)
    for rule in RULES:
        if (step := rule(case)) is not None:
            return step
    raise AssertionError("the last rule always applies")


# ---------------------------------------------------------------------- 1. the kind of file


def _watch(case: Case) -> NextStep | None:
    if not case.facts.is_held:
        return None
    why = "The study is being measured; this shows its progress and which layout leads:"
    return NextStep("watch", why, case.of("watch"))


def _pairs(case: Case) -> NextStep | None:
    if case.study.strategy != "aa":
        return None
    if case.facts.ending == "cut-off":
        return NextStep("go-on", "The study was interrupted. This continues it:", case.going_on())
    return NextStep(
        "pairs",
        "The layout was compared with itself; this shows its smallest detectable difference:",
        case.of("aa"),
    )


def _check(case: Case) -> NextStep | None:
    parent = case.study.provenance.check_of
    if case.study.strategy != "check" or parent is None:
        return None
    before, after = resume_arguments(case.study)
    checked = str(PurePosixPath(case.facts.file).with_name(parent))
    words = ("tuner", "check", checked, *before, "--resume", case.facts.file, *after)
    return NextStep(
        "check", f"This is a check. This shows whether the result of {parent} still holds:", words
    )


def _begin(case: Case) -> NextStep | None:
    facts = case.facts
    if not facts.n_launches:
        return NextStep("begin", "Nothing was measured yet. This starts the study:", case.going_on())
    claim, is_empty = case.ranking.claim, not any(row.n_windows + row.n_void for row in case.ranking.rows)
    if claim is not None and not claim.answer.counts_slices and is_empty and facts.ending != "over":
        why = "The study ended before its first window without slices"
    elif facts.ending == "cut-off" and is_nothing_ranked(case) and not facts.n_failed + facts.n_invalid:
        why = "The study was interrupted before its first window"
    else:
        return None
    return NextStep("go-on", f"{why}. This continues it:", case.going_on())


# ---------------------------------------------------------------------- 2. doubtful figures


def _step_if_disturbed(case: Case) -> NextStep | None:
    others, invalid = case.ranking.others, case.facts.invalid
    n_of_host = case.facts.n_of_host
    if others is not None and others.is_no_evidence and not others.in_turns:  # slices allow for them
        why = f"Other processes used {others.cores:.2f} of {others.host_cores:g} cores"
    elif has_too_many_invalid(case) and 2 * n_of_host >= case.facts.n_invalid:
        most = max(OF_HOST, key=lambda slug: invalid.get(slug, 0))
        why = f"The host was not quiet: {pluralize(n_of_host, 'window')} invalid, most for {most}"
    else:
        return None
    if case.facts.can_slice:
        do = "Stop the disturbance, or measure with --slices auto. This shows the disturbing processes:"
    else:
        do = "Find out what disturbs this host and stop it, then measure again:"
    return NextStep("disturbed", f"{why}. {do}", ("tuner", "doctor"))


def _invalid(case: Case) -> NextStep | None:
    if is_nothing_ranked(case):
        first = case.ranking.rows[0]
        why = f"No layout could be measured ({first.layout}: {first.reason})"
    elif has_too_many_invalid(case):
        most = max(case.facts.invalid, key=lambda slug: case.facts.invalid[slug])
        why = f"{pluralize(case.facts.n_invalid, 'window')} invalid, most for {most}"
    else:
        return None
    return NextStep(
        "invalid-windows",
        f"{why}. This writes a page with the reason of every window. Remove the cause, then measure again:",
        case.of("report"),
    )


def _few_clients(case: Case) -> NextStep | None:
    starved = case.ranking.starved
    if not starved:
        return None
    most = max(layout.total_threads for layout in case.study.layouts)
    return NextStep(
        "few-clients",
        f"The load generator's connections were the bottleneck of {list_names(starved)}. Measure again with "
        "more clients:",
        case.anew("--clients", str(8 * most)),
    )


def _first_look(case: Case) -> NextStep | None:
    if not case.study.provenance.is_quick:
        return None
    return NextStep(
        "first-look",
        "Windows this short are a first look. This measures the same service for a result to act on:",
        case.anew(),
    )


# ---------------------------------------------------------------------- 3. another question


def _limits(case: Case) -> NextStep | None:
    kept_out = [row for row in case.ranking.rows if row.is_kept_out]
    if case.ranking.is_answer_kept_out and (step := race_without_leaks(case)) is not None:
        return step
    if case.best is not None or not kept_out:
        return None
    judged = [row.verdict for row in kept_out if row.verdict is not None]
    is_open = any(verdict.state == "open" for verdict in judged)
    if is_open and case.study.strategy == "race":
        is_of_race = case.ranking.limits == limits_from(case.study.limits)
        if is_of_race and case.facts.ending != "over":
            return NextStep(
                "go-on",
                "It is not decided yet whether some layouts keep the limits; this measures more of them:",
                case.going_on(),
            )
        why = "The race is over" if is_of_race else "The race had other limits"
        return NextStep(
            "limits",
            f"{why}, and it is not decided whether some layouts keep these limits. A new race decides it:",
            case.anew(),
        )
    if is_open and case.study.strategy == "all":
        return NextStep(
            "limits",
            "It is not decided whether some layouts keep the limits. This measures all of them more often:",
            case.anew("--repeats", str(2 * case.study.n_blocks)),
        )
    nearest = nearest_to_limits(kept_out)
    if nearest is None:
        return None
    layout, findings = nearest
    seen = ", ".join(f"{WORDS[one.limit.name]} {render_level(one)}" for one in findings)
    options = [
        word
        for one in findings
        for word in (
            OPTIONS[one.limit.name],
            amount_above(one.limit.name, max(upper_usage(one), one.limit.at_most)),
        )
    ]
    return NextStep(
        "limits",
        f"No layout is shown to keep the limits. {layout} comes nearest, with {seen}. This ranks with limits"
        " that allow it:",
        case.of("rank", *options),
    )


def _edge(case: Case) -> NextStep | None:
    wider = case.ranking.wider
    if wider is None or not wider.larger:
        return None
    return NextStep(
        "edge",
        f"{wider.sentence} This measures larger layouts, too:",
        case.anew("--layouts", ",".join(map(str, (wider.leader, *wider.larger)))),
    )


# ---------------------------------------------------------------------- 4. an uncertain answer


def _slices(case: Case) -> NextStep | None:
    """Propose a race in slices, if the rest of a race without slices takes longer than the race so far."""
    claim, facts = case.ranking.claim, case.facts
    is_open = claim is not None and not claim.answer.reached and claim.answer.layout is not None
    if claim is None or not is_open or not facts.can_slice or not is_noisy(case.ranking):
        return None
    if facts.ending != "out-of-budget" or (claim.rest is not None and claim.rest.lasts_s <= claim.spent_s):
        return None
    return NextStep(
        "slices",
        f"The noise is too large for a result within the budget{case.expected_rest}. With --slices"
        " auto, layouts take turns of a few seconds, so that the host disturbs them equally:",
        case.anew(*SLICES, *layouts_option(case)),
    )


def _go_on(case: Case) -> NextStep | None:
    claim, ending = case.ranking.claim, case.facts.ending
    if case.is_answered and claim is not None:
        return None
    if ending == "cut-off" or (ending is None and claim is not None):
        rest = None if claim is None or claim.rest is None else render_rest(claim.rest.lasts_s)
        about = "" if rest is None else f" (at most {rest} are likely to decide it)"
        return NextStep(
            "go-on", f"The study stopped before its end. This continues it{about}:", case.going_on()
        )
    if claim is None or claim.answer.layout is None or ending != "out-of-budget":
        return None
    if claim.rest is None:
        least = min(row.n_windows for row in case.ranking.rows if row.layout in case.rivals)
        if least >= FEW_LAUNCHES:
            return None
        why = "No result within the budget, and too few launches to estimate the remaining effort"
        return NextStep("go-on", f"{why}. This gives it the same budget again:", case.going_on())
    if claim.rest.lasts_s > max(PATIENCE_S, 2 * claim.spent_s):
        return None
    windows, lasts = pluralize(claim.rest.n_windows, "more window"), render_rest(claim.rest.lasts_s)
    return NextStep(
        "go-on",
        f"No result within the budget; at most {windows}, {lasts}, are likely to decide it. This gives it the"
        " same budget again:",
        case.going_on(),
    )


def _too_noisy(case: Case) -> NextStep | None:
    claim, rivals = case.ranking.claim, case.rivals
    if claim is not None:
        if claim.answer.reached or claim.answer.layout is None:
            return None
        return _coarser(case)
    if len(rivals) < 2 or not case.ranking.of_group("not-ruled-out"):
        return None
    is_single = case.study.n_blocks == 1
    why = "One launch of a layout does not rule out" if is_single else "The noise is too large to rule out"
    slices = SLICES if case.facts.can_slice and is_noisy(case.ranking) else ()
    return NextStep(
        "too-noisy",
        f"{why} {list_names(rivals[1:], 4)}. A race measures these layouts until it finds the best one:",
        case.anew("--strategy", "race", *slices, *layouts_option(case)),
    )


def _coarser(case: Case) -> NextStep:
    """Propose a larger margin, among those left, for a race whose margin is too small for the noise."""
    claim, within = case.ranking.claim, case.study.within_ratio
    rest = None if claim is None else claim.rest
    wanted = within
    if claim is not None and rest is not None and claim.spent_s > 0:
        # launches needed grow with the inverse square of the margin
        wanted = within * sqrt((claim.spent_s + rest.lasts_s) / max(claim.spent_s, PATIENCE_S))
    margin = next((one for one in MARGINS if one > within and one >= wanted), MARGINS[-1])
    if margin <= within:
        why = f"The noise is too large even for a margin of {percent(within)}{case.expected_rest}"
        return NextStep("too-noisy", f"{why}. This shows what disturbs this host:", ("tuner", "doctor"))
    return NextStep(
        "too-noisy",
        f"The noise is too large for a margin of {percent(within)}{case.expected_rest}. A race"
        f" for {percent(margin)} needs less time:",
        case.anew("--within", f"{100 * margin:g}%", *layouts_option(case)),
    )


# ---------------------------------------------------------------------- 5. open points of an answer


def _latency(case: Case) -> NextStep | None:
    seen = [row.latency for row in case.ranking.rows if row.latency is not None]
    if not seen or any(one.rate_per_s is not None for one in seen):
        return None
    p95_s = next((limit.at_most for limit in case.ranking.limits if limit.name == "p95_s"), None)
    if p95_s is not None:
        rate, how = f"p95={render_exact_duration(p95_s)}", "at the highest rate that keeps this p95"
    else:
        rate, how = "70%", "at 70 % of the capacity of each layout"
    return NextStep(
        "latency",
        f"Latency was measured at saturation only, where clients never pause. This measures it {how}:",
        case.anew("--rate", rate, *layouts_option(case, always=True)),
    )


def _step_if_simulated(case: Case) -> NextStep | None:
    if not is_simulated(case.study):
        return None
    return NextStep(
        "simulated",
        "A model gave these figures: measure the service itself before you act on them. This shows"
        " the bottleneck of each layout in the model:",
        case.of("explain"),
    )


# ---------------------------------------------------------------------- 6. a good answer


def _check_later(case: Case) -> NextStep | None:
    current = next((row for row in case.ranking.rows if row.layout == case.ranking.current), None)
    if current is None or current.group != "best-or-tied":
        return None
    is_best = case.best is not None and current.layout == case.best.layout
    return NextStep(
        "check-later",
        f"{current.layout} is in use{'' if is_best else ' and tied with the best'}: nothing has to change."
        " After the next release, this tests whether the result still holds:",
        ("tuner", "check", case.facts.file, *config_again(case.study)),
    )


def _export(case: Case) -> NextStep | None:
    best = case.best
    if best is None:
        return NextStep(
            "invalid-windows",
            "No layout could be ranked. This writes a page with the reasons:",
            case.of("report"),
        )
    options = () if case.ranking.current is None else ("--current", str(case.ranking.current))
    return NextStep(
        "export",
        f"{best.layout} {case.usable}. This writes a page on how to apply it and how to roll back:",
        case.of("export", "--into", "RUNBOOK.md", *options, *options_again(case)),
    )


RULES: tuple[Callable[[Case], NextStep | None], ...] = (
    _watch,
    _pairs,
    _check,
    _begin,
    _step_if_disturbed,
    _invalid,
    _few_clients,
    _first_look,
    measure_for_longer,
    race_in_long_windows,
    _limits,
    _edge,
    _slices,
    _go_on,
    _too_noisy,
    _latency,
    _step_if_simulated,
    _check_later,
    _export,
)
