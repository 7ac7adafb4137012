"""The use case of `tuner aa`: compare a layout with itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.layouts_in_turns import n_layouts_in_turns
from tuner.app.plan_builder import build_plan
from tuner.app.session import load_request, naming_option, new_session
from tuner.config.load import Given
from tuner.core.domain.layout import parse_layout
from tuner.core.domain.strategy import Proposal
from tuner.core.errors import ConfigError
from tuner.study.timetable import check_budget

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say, Session
    from tuner.core.domain.strategy import Slices

_REPEATS = 10  #: pairs of launches
_WINDOWS = 3  #: windows of each launch
_WINDOW_S = 60.0  #: largest window unless --window sets another one


def begin_self_test(
    config: Path | None,
    options: Options,
    say: Say,
    layout: str | None,
    repeats: int | None,
    windows: int | None,
    slices: Slices | None,
    study: Path | None,
    simulate: Path | None,
) -> Session:
    """Begin a comparison of a layout with itself.

    Args:
        config: a config in YAML; None: no config.
        options: the settings given on the command line.
        layout: the layout as typed, such as ``4x6``.
        repeats: pairs of launches; None: as many as fit into the budget, else 10.
        windows: windows of each launch; None: 3.
        slices: auto: the launches of a pair take turns if the service allows it.
        study: the file; None: it is named after the service.
        simulate: the profile to simulate; None: a real service runs.

    Raises:
        ConfigError: no layout is named, the settings cannot be used here, or the file exists.
    """
    if layout is None:
        raise ConfigError("no layout is named", hint="Name the one in use, as --layout 4x6.")
    with naming_option("--layout"):
        parse_layout(layout)
    options = {
        ("study", "strategy"): Given("tuner aa", "all"),
        ("study", "layouts"): Given("--layout", layout),
        **options,
    }
    settings, profile = load_request(config, options, simulate)
    record = build_plan(settings, profile, options, say)
    window_s = record.window_s if ("study", "window") in options else min(_WINDOW_S, record.window_s)
    n_pairs, per_launch = repeats or _REPEATS, windows or _WINDOWS
    budget_s = record.budget_s
    if budget_s is not None and repeats is None:
        n_pairs = max(2, int(budget_s / (2 * per_launch * window_s)))
    record = replace(
        record,
        strategy="aa",
        n_blocks=n_pairs,
        window_s=window_s,
        windows_per_launch=per_launch,
        provenance=replace(record.provenance, made_by="tuner aa"),
    )
    if slices == "auto":
        n_resident = n_layouts_in_turns(settings, say, is_simulated=profile is not None, n_layouts=2)
        record = replace(record, n_resident=n_resident)
    check_budget(record, [Proposal(record.layouts[0], window_s, per_launch)] * 4)
    return new_session(
        settings, record, study if study is not None else Path(f"{record.service}.aa.tuner.db")
    )
