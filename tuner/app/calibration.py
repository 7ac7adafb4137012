"""The calibration: launches of one process with one thread, to estimate the demands of an item."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.plan_builder import build_plan
from tuner.app.session import load_request, new_session
from tuner.bootstrap import stores
from tuner.config.load import Given
from tuner.study.calibration_run import MADE_BY, N_LAUNCHES, N_WINDOWS, WINDOW_S, calibration_study

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.bootstrap.wire import Say, Session


def begin_calibration(
    config: Path | None,
    options: Options,
    say: Say,
    launches: int | None,
    windows: int | None,
    study: Path | None,
    simulate: Path | None,
) -> Session:
    """Begin a calibration.

    Args:
        config: a config in YAML; None: none was named.
        options: the settings that were typed.
        launches: how many; None: 3.
        windows: of each launch; None: 2.
        study: the file; None: it is named after the service.
        simulate: the profile to simulate; None: a service runs.

    Raises:
        ConfigError: the settings cannot be used here, or the file exists.
    """
    options = {
        ("study", "strategy"): Given(MADE_BY, "all"),
        ("study", "layouts"): Given(MADE_BY, "1x1"),
        **options,
    }
    settings, profile = load_request(config, options, simulate)
    usual = build_plan(settings, profile, options, say)
    record = calibration_study(
        usual,
        n_launches=launches or N_LAUNCHES,
        n_windows=windows or N_WINDOWS,
        window_s=usual.window_s if ("study", "window") in options else min(WINDOW_S, usual.window_s),
    )
    file = study if study is not None else Path(f"{record.service}.calibrate.tuner.db")
    return new_session(settings, record, file)


def has_windows(file: Path) -> bool:
    """Return whether the study in *file* has a valid window."""
    with stores.open_store(file, read_only=True) as store:
        return any(not window.void for window in store.windows())
