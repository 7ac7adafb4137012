"""The settings that a config and the options of a command ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.config.load import DocumentLook, Given
    from tuner.config.settings import Settings
    from tuner.core.model.profile import Profile

    Options = dict[tuple[str | int, ...], Given]  #: what was typed, by its place in the settings

_SQLITE = b"SQLite format 3\0"  #: the first bytes of every file that is kept by SQLite


@contextmanager
def naming_option(option: str) -> Iterator[None]:
    """What is wrong with the value of *option* is told with its name before it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{option}: {error.problem}", hint=error.hint) from error


def is_study(file: Path) -> bool:
    """Whether *file* is a study: by its first bytes, so that it may have any name.

    One that is called ``*.db`` is taken for one in any case: if it is missing or no study, that is told.
    """
    return file.suffix == ".db" or _is_sqlite(file)


def _is_sqlite(file: Path) -> bool:
    try:
        if not file.is_file():  # a pipe can be read once
            return False
        with file.open("rb") as opened:
            return opened.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # told where a config is read


def load_request(
    config: Path | None,
    options: Options,
    simulate: Path | None,
    *,
    kept: Mapping[str, Any] | None = None,
    look: DocumentLook | None = None,
    profile: Profile | None = None,
) -> tuple[Settings, Profile | None]:
    """The settings, and the profile to simulate; then only the study section of *config* is used.

    *kept* is what a study that goes on was begun with, *look* is for its config; see `load_settings`.
    *profile* is the one that it plays, where no other one is named.

    Raises:
        ConfigError: with everything that is wrong in either, or options that a simulated box has no use for.
    """
    from tuner.bootstrap.configs.configs import settings_of

    if config is not None and _is_sqlite(config):
        raise ConfigError(
            f"expected a config file, but {config} is a study",
            hint=f"Rank it with tuner rank {config}, or continue it with --resume {config}.",
        )
    if simulate is None and profile is None:
        return settings_of(config, options, kept=kept, look=look), None
    from tuner.config.profile import read_profile

    for place, option in options.items():
        if place[0] != "study":
            raise ConfigError(
                f"{option.option} is for a service that runs; in a simulated study none does",
                hint="Leave one of them out.",
            )
    profile = read_profile(simulate) if simulate is not None else profile
    left_out = ("service", "hooks", "brake", "backends")
    return settings_of(config, options, without=left_out, kept=kept, look=look), profile
