"""Results of all mixes: the bars, the tables, the JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mix_figures import Errors, errors_of, ordered_pairs, regret, relative_errors
from mix_judging import MODEL, Judged, Peer
from mix_points import Measured
from tabulate import tabulate

from tuner.core.domain.layout import Layout

LEAST_POINTS = 200


@dataclass(frozen=True)
class PeerFigures:
    """One model on one mix; None: it predicts nothing, or there is nothing to compare with."""

    throughput: Errors | None  #: of the layouts it was not fitted to
    throughput_common: Errors | None  #: of those that nobody was fitted to
    load: Errors | None  #: outside of convoys
    convoy_load: Errors | None
    load_of_kernel: Errors | None  #: outside of convoys, against load1
    convoy_load_of_kernel: Errors | None
    pairs: tuple[int, int]  #: in the right order, of how many; 1x1 is one of the layouts
    regret: float | None


@dataclass(frozen=True)
class Bar:
    """One thing that has to be so good."""

    what: str
    value: float | None  #: None: not measured
    least: float | None = None
    most: float | None = None
    percent: bool = True

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        is_met = (self.least is None or self.value >= self.least) and (
            self.most is None or self.value <= self.most
        )
        return "met" if is_met else "MISSED"


def figures_of(judged: Judged, peer: Peer) -> PeerFigures:
    """Errors, order and regret of *peer*."""
    measured = judged.measured
    throughput = {layout: one.throughput_per_s for layout, one in measured.items()}
    everybodys = frozenset[Layout]().union(*(one.fitted_to for one in judged.peers))
    off = relative_errors(peer.throughputs(), throughput)

    def loads(of: Callable[[Measured], float | None], inside: bool) -> Errors | None:
        there = {layout: value for layout, one in measured.items() if (value := of(one))}
        errors = relative_errors(peer.loads(), there)
        return errors_of(
            error
            for layout, error in errors.items()
            if layout not in peer.fitted_to and (layout in judged.convoy) == inside
        )

    return PeerFigures(
        throughput=errors_of(error for layout, error in off.items() if layout not in peer.fitted_to),
        throughput_common=errors_of(error for layout, error in off.items() if layout not in everybodys),
        load=loads(lambda one: one.load, inside=False),
        convoy_load=loads(lambda one: one.load, inside=True),
        load_of_kernel=loads(lambda one: one.load_of_kernel, inside=False),
        convoy_load_of_kernel=loads(lambda one: one.load_of_kernel, inside=True),
        pairs=ordered_pairs(peer.throughputs(), throughput),
        regret=regret(peer.throughputs(), throughput) if peer.predicted else None,
    )


def bars(all_judged: Iterable[Judged]) -> list[Bar]:
    """Return the bars of the model, over the mixes that a launch of 1x1 can identify."""
    judged = [one for one in all_judged if not one.run.mix.beyond]
    model = [figures_of(one, one.peer(MODEL)) for one in judged]
    throughput = [one.throughput for one in model if one.throughput]
    right, n_pairs = (sum(one.pairs[k] for one in model) for k in (0, 1))
    n_covered, n_points = sum(one.n_covered for one in judged), sum(one.n_points for one in judged)
    left = [one.left_out for one in judged if one.left_out]
    left_off = errors_of(error for one in left for error in one.throughput)
    return [
        Bar("mixes measured", len(judged), least=4, percent=False),
        Bar(
            "throughput: mean error of the worst mix",
            max((one.mean for one in throughput), default=None),
            most=0.04,
        ),
        Bar("throughput: largest error", max((one.most for one in throughput), default=None), most=0.08),
        Bar(
            "load outside convoys: mean error of the worst mix", _worst(one.load for one in model), most=0.10
        ),
        Bar(
            "load in convoys: mean error of the worst mix",
            _worst(one.convoy_load for one in model),
            most=0.20,
        ),
        Bar("pairs apart by 4 % in the right order", right / n_pairs if n_pairs else None, least=0.98),
        Bar("windows in their 90 % interval", n_covered / n_points if n_points else None, 0.85, 0.95),
        Bar("windows that these are", n_points, least=LEAST_POINTS, percent=False),
        Bar("left out of joint fits: median error", left_off.median if left_off else None, most=0.05),
        Bar("left out of joint fits: 90th percentile", left_off.p90 if left_off else None, most=0.12),
    ]


def _worst(errors: Iterable[Errors | None]) -> float | None:
    return max((one.mean for one in errors if one is not None), default=None)


def render(all_judged: Sequence[Judged], warnings: Sequence[str]) -> str:
    """Everything, for a terminal."""
    parts = [f"Warning: {warning}." for warning in warnings]
    parts += [render_mix(one) for one in all_judged]
    parts.append(render_bars(bars(all_judged)))
    return "\n\n".join(parts) + "\n"


def render_bars(found: Sequence[Bar]) -> str:
    rows = []
    for bar in found:
        show = _percent if bar.percent else "{:g}".format
        ends = [
            text
            for text in (bar.least and f">= {show(bar.least)}", bar.most and f"<= {show(bar.most)}")
            if text
        ]
        rows.append(
            [bar.what, "-" if bar.value is None else show(bar.value), " and ".join(ends), bar.verdict]
        )
    return tabulate(rows, headers=["the model", "is", "bar", ""], disable_numparse=True)


def render_mix(judged: Judged) -> str:
    """Render a mix: its parts, layouts and models."""
    run, demands = judged.run, judged.calibration.profile.demands
    lengths = sorted({round(one.clocks.length_s) for one in run.points})
    intervals = judged.calibration.profile.intervals
    text = ", ".join(
        f"{name.removesuffix('_s')} {1000 * value:.1f}{_plus_minus(intervals.get(name))} ms"
        for name, value in asdict(demands).items()
        if name.endswith("_s") and value > 0
    )
    beyond = (
        f"\nBeyond a calibration from 1x1: {run.mix.beyond}; no bar holds for it." if run.mix.beyond else ""
    )
    head = (
        f"{run.mix.name}: {len(run.points)} windows of {', '.join(f'{one} s' for one in lengths)}"
        f" ({run.n_void} void left out), others used"
        f" {sum(one.others_cores for one in run.points) / len(run.points):.3f} core{beyond}\n"
        f"from 1x1: {text}; cv {demands.cv_ratio:.2f}"
    )
    return "\n\n".join([head, _layout_table(judged), _peer_table(judged), _last_lines(judged)])


def _plus_minus(estimate: Any) -> str:
    if estimate is None or estimate.low is None:
        return ""
    return f" +-{500 * (estimate.high - estimate.low):.1f}"


def _layout_table(judged: Judged) -> str:
    names = [peer.name for peer in judged.peers]
    with_load = [peer for peer in judged.peers if peer.loads()]
    rows = []
    for layout, one in judged.measured.items():
        row = [
            f"{layout}{' convoy' if layout in judged.convoy else ''}",
            str(one.n),
            f"{one.throughput_per_s:.2f}",
        ]
        for peer in judged.peers:
            result = peer.predicted.get(layout)
            mark = "*" if layout in peer.fitted_to else ""
            row.append(
                "-" if result is None else f"{result.throughput_per_s / one.throughput_per_s - 1:+.1%}{mark}"
            )
        low, high = judged.intervals[layout]
        row.append(f"{low:.2f} to {high:.2f}")
        row += [_tasks(one.load), _tasks(one.load_of_kernel)]
        row += [_tasks(peer.loads().get(layout)) for peer in with_load]
        rows.append(row)
    headers = ["layout", "windows", "items/s", *names, "90 % of windows", "load", "load1"]
    return tabulate(
        rows, headers=[*headers, *(f"by {peer.name}" for peer in with_load)], disable_numparse=True
    )


def _peer_table(judged: Judged) -> str:
    rows = []
    for peer in judged.peers:
        if peer.silent:
            continue
        found = figures_of(judged, peer)
        rows.append(
            [
                peer.name,
                _both(found.throughput),
                _both(found.throughput_common),
                _both(found.load),
                _both(found.convoy_load),
                _both(found.load_of_kernel),
                _both(found.convoy_load_of_kernel),
                f"{found.pairs[0]}/{found.pairs[1]}",
                "-" if found.regret is None else _percent(found.regret),
            ]
        )
    headers = [
        "errors: mean, max",
        "throughput",
        "where all predict",
        "load",
        "in convoy",
        "load1",
        "in convoy",
        "pairs",
        "regret",
    ]
    silent = [f"{peer.name} says nothing: {peer.silent}" for peer in judged.peers if peer.silent]
    return "\n".join([tabulate(rows, headers=headers, disable_numparse=True), *silent])


def _last_lines(judged: Judged) -> str:
    lines = []
    if judged.n_points:
        share = _percent(judged.n_covered / judged.n_points)
        lines.append(f"{judged.n_covered} of {judged.n_points} windows ({share}) in their 90 % interval")
    left = judged.left_out
    if left is None:
        lines.append("Too few layouts for a joint fit with some left out.")
        return "\n".join(lines)
    errors, of_load = errors_of(left.throughput), errors_of(left.load)
    text = f"Joint fits of {left.n_fitted} layouts ({len(left.throughput)} left out in all):"
    if errors:
        text += f" throughput median {_percent(errors.median)}, 90th percentile {_percent(errors.p90)}"
    if of_load:
        text += f"; load median {_percent(of_load.median)}, 90th percentile {_percent(of_load.p90)}"
    if left.n_points:
        text += f"; {_percent(left.n_covered / left.n_points)} of their windows in the interval"
    return "\n".join([*lines, text])


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"


def _both(errors: Errors | None) -> str:
    return "-" if errors is None else f"{_percent(errors.mean)}, {_percent(errors.most)}"


def _tasks(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def as_json(all_judged: Sequence[Judged], warnings: Sequence[str]) -> dict[str, Any]:
    """The same for programs; layouts by their name."""
    return {
        "warnings": list(warnings),
        "bars": [{**asdict(bar), "verdict": bar.verdict} for bar in bars(all_judged)],
        "mixes": [_mix_json(one) for one in all_judged],
    }


def _mix_json(judged: Judged) -> dict[str, Any]:
    run = judged.run
    return {
        "mix": asdict(run.mix),
        "file": str(run.file),
        "n_windows": len(run.points),
        "n_void": run.n_void,
        "demands": asdict(judged.calibration.profile.demands),
        "misfit_sd": judged.calibration.misfit_sd,
        "n_covered": judged.n_covered,
        "n_points": judged.n_points,
        "layouts": {
            str(layout): {
                "n": one.n,
                "throughput_per_s": one.throughput_per_s,
                "load": one.load,
                "load_of_kernel": one.load_of_kernel,
                "others_cores": one.others_cores,
                "convoy": layout in judged.convoy,
                "interval": judged.intervals[layout],
                "predicted": {
                    peer.name: {**asdict(peer.predicted[layout]), "fitted": layout in peer.fitted_to}
                    for peer in judged.peers
                    if layout in peer.predicted
                },
            }
            for layout, one in judged.measured.items()
        },
        "peers": {
            peer.name: {**asdict(figures_of(judged, peer)), "silent": peer.silent} for peer in judged.peers
        },
        "left_out": None if judged.left_out is None else asdict(judged.left_out),
    }
