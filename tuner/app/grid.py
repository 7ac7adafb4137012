"""The use cases of `tuner grid` and `tuner demo`: begin a study of layouts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.app.layouts_in_turns import with_turns
from tuner.app.measuring import beginning
from tuner.app.plan_builder import build_plan
from tuner.app.session import load_request, new_session
from tuner.config.load import Given, names_service
from tuner.core.domain.layout import whole_cores
from tuner.core.errors import ConfigError
from tuner.study.timetable import check_budget

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tuner.app.session import Options
    from tuner.bootstrap.wire import FleetAddress, Say, Session
    from tuner.core.domain.records import StudyRecord
    from tuner.core.domain.strategy import Proposal
    from tuner.core.model.profile import Profile

# A new study with the settings of an earlier one: `tuner grid --like`.

_OWN = ("aa", "check")  #: strategies of studies that rank no layouts


def settings_like(
    file: Path, *, is_alone: bool, of_first_looks: Collection[str]
) -> tuple[dict[str, Any], Profile | None]:
    """Return the settings with which the study in *file* was begun, and its profile if it is simulated.

    Args:
        file: the study.
        is_alone: whether only *file* names the service.
        of_first_looks: names of study settings that ``--quick`` sets, which are left out.

    Raises:
        ConfigError: the study is not one of `tuner grid`, or it lacks its secrets and nothing else has them.
    """
    from tuner.bootstrap import stores
    from tuner.config.profile import stored_profile
    from tuner.core.domain.records import is_simulated

    with stores.open_store(file, read_only=True) as store:
        record = store.study()
    if record.strategy in _OWN:
        what = "a check" if record.strategy == "check" else "a comparison of a layout with itself"
        raise ConfigError(f"--like {file}: the file is {what}", hint="Name a study of tuner grid.")
    if is_alone and record.config.lacks_secrets:
        raise ConfigError(
            f"--like {file}: the study does not keep its secrets",
            hint=f"Name its config, or its command, again: tuner grid CONFIG --like {file}",
        )
    kept = record.config.copy_sections()
    if record.provenance.is_quick:
        for name in of_first_looks:
            kept["study"].pop(name, None)
    if not is_simulated(record):
        return kept, None
    profile = stored_profile(record, file)
    return {"study": {**kept["study"], "cores": record.cores}}, profile


def free_name(file: Path) -> Path:
    """Return the first unused numbered name next to the study *file*, such as ``web.2.tuner.db``."""
    stem = re.sub(r"\.\d+$", "", file.name.removesuffix(".db").removesuffix(".tuner"))
    number = 2
    while (found := file.with_name(f"{stem}.{number}.tuner.db")).exists():
        number += 1
    return found


#: settings of --quick unless an option overrides them: 5 layouts, 3 blocks, about 10 s per launch
QUICK = {
    ("study", "strategy"): "all",  # of limited duration; a race may take long
    ("study", "window"): "6s",
    ("study", "warmup"): "3s",
    ("study", "repeats"): "3",
    ("study", "max_attempts"): "2",
    ("study", "foreign_limit"): "0.5",  # a new user's host is rarely quiet, and this result is not final
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
    """Begin a new study: return its settings, its record and its file.

    Args:
        config: a config in YAML; None: no config.
        options: the settings given on the command line.
        simulate: the profile to simulate; None: a real service runs.
        file: the file of the study; None: it is named after the service.
        on: the fleet that measures; None: this host.
        like: a study whose settings are the defaults; None: tuner's defaults.
        quick: a first look: few layouts and short windows, unless *options* differ.

    Raises:
        ConfigError: the settings cannot be used here, the budget is too short, or the file exists.
    """
    if quick:
        given: Options = {place: Given("--quick", text) for place, text in QUICK.items()}
        if ("study", "strategy") in options:
            del given["study", "repeats"]  # that strategy has its own number
        options = {**given, **options}
    before = kept = None
    if like is not None:
        is_alone = config is None and not any(map(names_service, options))
        of_first_looks = [name for _, name in QUICK]
        before, kept = settings_like(like, is_alone=is_alone, of_first_looks=of_first_looks)
    settings, profile = load_request(config, options, simulate, kept=before, profile=kept)
    one = None
    if on is not None:
        from tuner.app.fleet_run import box_of

        one = box_of(on, None if profile is not None else settings, say)
    thins_out = quick and ("study", "layouts") not in options
    record = build_plan(settings, profile, options, say, quick=thins_out, on=one, config=config)
    record = with_turns(record, settings, say, is_simulated=profile is not None, on_fleet=one is not None)
    if one is not None:
        from tuner.app.fleet_run import print_idle_hosts

        print_idle_hosts(record, one[1], say)
    usual = Path(f"{record.service}.tuner.db")
    if like is not None:
        usual = free_name(like)
    session = new_session(settings, record, usual if file is None else file)
    if file is None and like is not None:
        say(f"A new study with the settings of {like}, in {usual}.")
    if quick:
        few = "a few layouts, " * thins_out
        say(f"A first look only: {few}short windows. For an answer to rely on, leave --quick out.")
    check_budget(record, _first_launches(record, is_fleet=on is not None))
    if one is not None and profile is None:
        for line in beginning(settings, record, is_new=True, n_hosts=one[1]):
            say(line)
    return session


def _first_launches(record: StudyRecord, *, is_fleet: bool) -> Sequence[Proposal]:
    """Return the first launches of the study."""
    if is_fleet:
        from tuner.study.fleet.study import least_on_fleet

        return least_on_fleet(record)
    from tuner.core.search.strategies.of_study import strategy_of

    return strategy_of(record).propose()


# The study of `tuner demo`: the built-in service, for about a minute.


WINDOW = "2s"
MOST_CORES = 4  #: with more cores, five layouts would start too many processes for a minute

#: 16 launches of less than 4 s each: one to warm the page cache, then 5 layouts in 3 blocks
_STUDY = {
    ("study", "strategy"): "all",
    ("study", "window"): WINDOW,
    ("study", "warmup"): "1s",
    ("study", "repeats"): "3",
    ("study", "max_attempts"): "5",
}


def demo_session(file: Path, say: Say) -> Session:
    """Return the session of the demo: the built-in service in five layouts, stored in *file*."""
    from tuner.app.plan_builder import build_plan
    from tuner.app.session import load_request, new_session
    from tuner.config.load import Given

    n_cpus = os.cpu_count() or 1
    texts = {
        **_STUDY,
        ("study", "cores"): str(_cores()),
        ("study", "foreign_limit"): str(n_cpus),  # other processes may use all; a note reports it
    }
    options: Options = {place: Given("tuner demo", text) for place, text in texts.items()}
    settings, _ = load_request(None, options, None)
    return new_session(settings, build_plan(settings, None, options, say, quick=True), file)


def _cores() -> int:
    """Return the number of cores to plan layouts for: this host's, limited to 2..`MOST_CORES`."""
    from tuner.adapters.proc.cores import usable_cores

    return max(2, min(MOST_CORES, whole_cores(usable_cores().count)))
