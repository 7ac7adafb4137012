"""The beginning of a study of layouts, as `tuner grid` makes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.beginning import beginning
from tuner.app.fleet_run import box_of, say_who_is_idle
from tuner.app.plan_builder import build_plan
from tuner.app.session import new_session
from tuner.app.settings import load_request
from tuner.config.load import Given, names_service
from tuner.core.domain.fleet import FLEET
from tuner.core.domain.resuming import CONFIG_FILE
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.fleet.study import least_on_fleet
from tuner.study.timetable import check_budget

if TYPE_CHECKING:
    from tuner.app.settings import Options
    from tuner.bootstrap.wire import FleetAddress, Say, Session

#: what --quick says, unless an option says otherwise: 5 layouts, 3 blocks, about 10 s each
QUICK = {
    ("study", "strategy"): "all",  # bounded; a race for an answer may take long
    ("study", "window"): "6s",
    ("study", "warmup"): "3s",
    ("study", "repeats"): "3",
    ("study", "max_attempts"): "2",
    ("study", "foreign_limit"): "0.5",  # a newcomer's box is rarely quiet, and this is no answer to act on
}


def begin_study(
    config: Path | None,
    options: Options,
    say: Say,
    simulate: Path | None = None,
    file: Path | None = None,
    on: FleetAddress | None = None,
    like: Path | None = None,
    *,
    quick: bool = False,
) -> Session:
    """Begin a new study: its settings, its record, and the file that it will be kept in.

    Args:
        config: a config in YAML; None: none was named.
        options: the settings that were typed.
        simulate: the profile to simulate; None: a service runs.
        file: of the study; None: it is named after the service.
        on: the fleet that measures; None: this host.
        like: a study whose settings hold where nothing else is said.
        quick: a first look: few layouts and short windows, unless *options* differ.

    Raises:
        ConfigError: the settings cannot be used here, the budget is too short, or the file exists.
    """
    if quick:
        given: Options = {place: Given("--quick", text) for place, text in QUICK.items()}
        if ("study", "strategy") in options:
            del given["study", "repeats"]  # as many as that strategy has
        options = {**given, **options}
    before = kept = None
    if like is not None:
        is_alone = config is None and not any(map(names_service, options))
        of_first_looks = [name for _, name in QUICK]
        from tuner.app.like import settings_like

        before, kept = settings_like(like, is_alone=is_alone, of_first_looks=of_first_looks)
    settings, profile = load_request(config, options, simulate, kept=before, profile=kept)
    one = None
    if on is not None:
        one = box_of(on, None if profile is not None else settings, say)
    thins_out = quick and ("study", "layouts") not in options
    record = build_plan(settings, profile, options, say, quick=thins_out, on=one)
    if one is not None:
        record = replace(record, provenance={**record.provenance, FLEET: "yes"})
        say_who_is_idle(record, one[1], say)
    if config is not None:
        record = replace(record, provenance={**record.provenance, CONFIG_FILE: str(config)})
    usual = Path(f"{record.service}.tuner.db")
    if like is not None:
        from tuner.app.like import free_name

        usual = free_name(like)
    session = new_session(settings, record, usual if file is None else file)
    if file is None and like is not None:
        say(f"A new study with the settings of {like}, in {usual}.")
    if quick:
        few = "a few layouts, " * thins_out
        say(f"A first look only: {few}short windows. For an answer to rely on, leave --quick out.")
    check_budget(record, strategy_of(record).propose() if on is None else least_on_fleet(record))
    if one is not None and profile is None:
        for line in beginning(settings, record, is_new=True, n_hosts=one[1]):
            say(line)
    return session
