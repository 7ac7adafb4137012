"""Predictions against measurements, a picture per mix. Needs matplotlib (dependency group bench-model)."""

from __future__ import annotations

from pathlib import Path

from mix_judging import MODEL, Judged

from tuner.core.errors import ConfigError


def draw(judged: Judged, folder: Path) -> Path:
    """Throughput to the left, load to the right, one point per layout; gives the file.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigError(
            "pictures need matplotlib",
            hint="Install the dependency group bench-model, or leave --pictures out.",
        ) from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    layouts = list(judged.measured)
    network = judged.peer(MODEL)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    for peer, mark in zip(judged.peers, "o*sv^x", strict=True):
        if peer.silent:
            continue
        pairs = [
            (judged.measured[one].throughput_per_s, peer.predicted[one].throughput_per_s)
            for one in layouts
            if one in peer.predicted and one not in peer.fitted_to
        ]
        left.plot(*zip(*pairs, strict=True), mark, label=peer.name, alpha=0.8)
    for one in layouts:
        x = judged.measured[one].throughput_per_s
        left.plot(
            [x, x], judged.intervals[one], color="tab:blue", alpha=0.3, linewidth=5, solid_capstyle="butt"
        )
        y = network.predicted[one].throughput_per_s
        left.annotate(str(one), (x, y), xytext=(6, -10), textcoords="offset points", fontsize=8)
    for peer, mark in zip(judged.peers, "o*sv^x", strict=True):
        loads = [(judged.measured[one].load, load, one) for one, load in peer.loads().items()]
        known = [(x, y) for x, y, _ in loads if x is not None]
        if known:
            right.plot(*zip(*known, strict=True), mark, label=peer.name, alpha=0.8)
        if peer is network:
            for at, load, one in loads:
                if at is not None:
                    name = f"{one} (convoy)" if one in judged.convoy else str(one)
                    right.annotate(name, (at, load), xytext=(6, -10), textcoords="offset points", fontsize=8)
    for axes, what in ((left, "items per second"), (right, "mean active tasks")):
        most = 1.1 * max(axes.get_xlim()[1], axes.get_ylim()[1])  # names need room
        axes.plot([0, most], [0, most], color="grey", linewidth=0.8)
        axes.set(xlabel=f"measured {what}", ylabel=f"predicted {what}", xlim=(0, most), ylim=(0, most))
        axes.legend(fontsize=8)
    figure.suptitle(f"{judged.run.mix.name}: calibrated from 1x1, bars are 90 % of windows", fontsize=10)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"mix-{judged.run.mix.name}.png"
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return file
