"""The use case of measuring a study on the hosts of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.wire import FleetAddress
from tuner.core.domain.fleet import is_fleet
from tuner.core.errors import ConfigError
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.bootstrap.wire import Say, Session
    from tuner.config.settings import Settings
    from tuner.core.domain.fleet import BoxFacts
    from tuner.core.domain.records import StudyRecord


def parse_fleet_options(address: str | None, certs: Path | None, *, force: bool) -> FleetAddress | None:
    """Return the fleet that the options name; None: this host alone.

    Raises:
        ConfigError: there are options of a fleet but no address.
    """
    if address is not None:
        return FleetAddress(address, certs, force)
    if certs is not None or force:
        raise ConfigError(
            f"{'--certs' if certs is not None else '--force'} is of a fleet",
            hint="Name its scheduler with --fleet, or leave that out.",
        )
    return None


def check_same_place(record: StudyRecord, file: Path, on: FleetAddress | None) -> None:
    """Check that a fleet's study continues on a fleet, and any other study on one host.

    Raises:
        ConfigError: it does not.
    """
    if is_fleet(record) and on is None:
        raise ConfigError(
            f"{file} was started on a fleet", hint="Name its scheduler: --fleet ADDRESS, and --certs DIR."
        )
    if on is not None and not is_fleet(record):
        raise ConfigError(
            f"{file} was started on one host", hint="Leave --fleet out, or start another study."
        )


def box_of(on: FleetAddress, settings: Settings | None, say: Say) -> tuple[BoxFacts, int]:
    """Return a representative host of the fleet, and the number of hosts.

    *settings* are used to read facts about its interpreters; None: they are not read.

    Raises:
        ConfigError: no host is connected, or it cannot use the configuration.
    """
    from tuner.bootstrap.fleet import first_box

    one, n = first_box(on.address, on.certs, settings, is_forced=on.is_forced)
    others = "" if n == 1 else f" and {pluralize(n - 1, 'similar host')}"
    say(f"On {one.name} ({pluralize(one.cores, 'core')}){others}, at {on.address}.")
    return one, n


def print_idle_hosts(record: StudyRecord, n_boxes: int, say: Say) -> None:
    """Print which hosts will be idle at the end of a grid, if any."""
    from tuner.core.search.strategies.fleet_grid import describe_idle_hosts

    lines = describe_idle_hosts(record.n_blocks, n_boxes) if record.strategy == "all" else None
    if lines is not None:
        say(f"With --repeats {record.n_blocks}: {lines}.")


def measure_on_fleet(session: Session, on: FleetAddress, say: Say) -> tuple[int, bool]:
    """Measure a study on a fleet; return its exit code, and whether nothing is left to measure.

    Raises:
        ConfigError: the scheduler does not answer or refuses access, or no host can use the configuration.
    """
    from tuner.adapters.processes.signals import stopping_by_signal
    from tuner.bootstrap import wire
    from tuner.core.errors import EXIT_INTERRUPTED
    from tuner.core.search.strategies.of_study import FollowedOnFleet, spreading_strategy_of
    from tuner.study.fleet.study import run_fleet

    strategy = FollowedOnFleet(spreading_strategy_of(session.record))
    ended_wall_s = _ended_wall_s(session)
    with stopping_by_signal() as stop:
        try:
            with wire.study_on_fleet(session, on, strategy, stop, say, ended_wall_s) as parts:
                outcome = run_fleet(parts.fleet, parts.store, parts.progress, stop, strategy, parts.hooks)
            return outcome.exit_code, outcome.is_over
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED, False


def _ended_wall_s(session: Session) -> float | None:
    """Return the wall time at which the last launch in the file ended; None: it has no launch."""
    from tuner.bootstrap import stores

    if session.is_new:
        return None
    with stores.open_store(session.file, read_only=True) as store:
        return max((one.ended_wall_s or one.started_wall_s for _, one in store.launches()), default=None)


def resume_options(on: FleetAddress) -> list[str]:
    """Return the options with which the study is resumed on this fleet."""
    certs = [] if on.certs is None else ["--certs", str(on.certs)]
    return ["--fleet", on.address, *certs, *(["--force"] * on.is_forced)]
