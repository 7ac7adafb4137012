"""Report of `tuner aa`, which compares a layout with itself, as text and as JSON fields."""

from __future__ import annotations

from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.planning.aa_test import PAIRS_OF_A_STUDY, POWER, AlarmRate, SelfTest
from tuner.core.planning.pilot import Pilot
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent, render_rest
from tuner.reports.text.formats import Table, render_table

_RULES = {
    "ranking": "tuner's ranking",
    "race": "tuner's race, strict, at any look",
    "welch": "Welch's test on windows (the usual mistake)",
}


def render_self_test(layout: Layout, test: SelfTest, pilot: Pilot | None, spent_s: float) -> str:
    """Return the rate of false alarms and the smallest detectable difference, as text."""
    rates = tuple(
        (_RULES[rate.rule], f"{rate.n_alarms} of {rate.n}", percent(rate.ratio), _reach(rate))
        for rate in test.rates
    )
    seen = tuple((f"{one.hours:g} h", str(one.n_pairs), *_difference(one.ratio)) for one in test.detectable)
    return (
        f"{layout} compared with itself: {test.n_pairs} pairs of launches, {render_rest(spent_s)}."
        f" The rate of false alarms should be at most {percent(1 - test.confidence)}.\n\n"
        + render_table(
            Table(("rule", "false alarms", "share", "95 % interval"), rates, frozenset({1, 2, 3})), "simple"
        )
        + "\n"
        + "".join(f"{line}\n" for line in _words(test))
        + "\n"
        + render_table(
            Table(
                (
                    "after",
                    "pairs",
                    f"detected in {percent(POWER)} of cases",
                    f"{percent(test.confidence)} interval",
                ),
                seen,
                frozenset({1, 2, 3}),
            ),
            "simple",
        )
        + "\n"
        + f"{_noise(test, pilot)}\n"
    )


def self_test_facts(layout: Layout, test: SelfTest, pilot: Pilot | None, spent_s: float) -> dict[str, Any]:
    """Return the same as JSON fields, listed in docs/json.md."""
    return {
        "schema_version": 1,
        "layout": str(layout),
        "pairs": test.n_pairs,
        "hours": spent_s / 3600,
        "confidence": test.confidence,
        "false_alarms": [
            {
                "rule": rate.rule,
                "alarms": rate.n_alarms,
                "labellings": rate.n,
                "every": rate.every,
                "ratio": rate.ratio,
                "low": rate.low,
                "high": rate.high,
            }
            for rate in test.rates
        ],
        "separate_studies": None
        if test.separate is None
        else {
            "alarms": test.separate.n_alarms,
            "studies": test.separate.n,
            "low": test.separate.low,
            "high": test.separate.high,
        },
        "detectable": [
            {"hours": one.hours, "pairs": one.n_pairs, "power": POWER, "ratio": _estimate(one.ratio)}
            for one in test.detectable
        ],
        "noise": {
            "pair": _estimate(test.pair_sd),
            "launch": None if pilot is None else _estimate(pilot.launch),
            "window": None if pilot is None else _estimate(pilot.window),
            "drift": None if pilot is None else _estimate(pilot.drift),
        },
    }


def _words(test: SelfTest) -> list[str]:
    """Return the meaning and the limits of the figures."""
    ranking = test.rates[0]
    labellings = f"all {ranking.n}" if ranking.every else f"{ranking.n} of the 2^{test.n_pairs}"
    found = [
        f"Counted over {labellings} ways to name one launch of each pair A: this is the rate for these"
        " launches; other launches may have another."
    ]
    if test.separate is not None:
        own = test.separate
        found.append(
            f"Studies that share no launch ({PAIRS_OF_A_STUDY} pairs each): {own.n_alarms} of {own.n} report"
            f" a difference, so the rate on this host is at most {percent(own.high)} (exact, 95 %). More"
            " pairs give a tighter bound."
        )
    if ranking.low > 1.5 * (1 - test.confidence):
        found.append(
            "The ranking finds more differences here than it should: the launches of a pair are not"
            " alike. Find out why the host changes between them."
        )
    return found


def _noise(test: SelfTest, pilot: Pilot | None) -> str:
    parts = [f"Noise: one launch {_with_interval(test.pair_sd)}"]
    if pilot is not None and pilot.window is not None:
        parts.append(f"launch alone {_with_interval(pilot.launch)}")
        parts.append(f"window {_with_interval(pilot.window)}")
    if pilot is not None and pilot.drift is not None:
        parts.append(f"drift from pair to pair {_with_interval(pilot.drift)}")
    return "; ".join(parts) + "."


def _reach(rate: AlarmRate) -> str:
    return "all counted" if rate.every else f"{percent(rate.low)} to {percent(rate.high)}"


def _difference(ratio: Estimate | None) -> tuple[str, str]:
    if ratio is None or ratio.mean is None or ratio.low is None or ratio.high is None:
        return "-", "-"
    return percent(ratio.mean), f"{percent(ratio.low)} to {percent(ratio.high)}"


def _with_interval(estimate: Estimate) -> str:
    mean, reach = _difference(estimate)
    return f"{mean} ({reach})"


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    return None if estimate is None else {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
