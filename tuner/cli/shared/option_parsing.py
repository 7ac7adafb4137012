"""What was typed, for the commands that measure: options as settings, and what does not go together."""

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

    Options = dict[tuple[str | int, ...], Given]

_SQLITE = b"SQLite format 3\0"  #: the first bytes of every file that is kept by SQLite


def service_options(service: str | None, settings: list[str] | None, command: str | None) -> Options:
    """What is typed of a service: its name, its record's settings as KEY=VALUE, its command.

    Raises:
        ConfigError: a setting has no ``=``.
    """
    from tuner.config.load import Given

    options: Options = {}
    if service is not None:
        options["service", "kind"] = Given("--service", service)
    for text in settings or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {text} is no KEY=VALUE", hint="As --set url=http://127.0.0.1:8000/")
        options["service", key.strip()] = Given(f"--set {key.strip()}", value)
    if command is not None:
        command_words(command)
        options["service", "command"] = Given("--", command)
    return options


def axis_options(axes: list[str] | None) -> Options:
    """What is typed of axes, as NAME=VALUE,VALUE.

    Raises:
        ConfigError: there is no ``=``, tuner does not know an axis of that name, or one is there twice.
    """
    from tuner.config.known_axes import KNOWN_AXES
    from tuner.config.load import Given

    options: Options = {}
    for text in axes or []:
        name, equals, values = text.partition("=")
        if not equals or name not in KNOWN_AXES:
            raise ConfigError(
                f"invalid --axis {text!r}: expected {KNOWN_AXES[0]}=VALUE,VALUE",
                hint="As --axis omp=1,2,auto. Other axes are written into a config: docs/your-service.md",
            )
        if ("service", "axes", name) in options:
            raise ConfigError(
                f"--axis {name} is typed twice", hint="Name all its values at once: omp=1,2,auto"
            )
        options["service", "axes", name] = Given(f"--axis {name}", values)
    return options


def command_words(command: str) -> list[str]:
    """Split the text of ``--command``, which what stands after ``--`` becomes, into words.

    Raises:
        ConfigError: it cannot be split, or holds no word.
    """
    from tuner.core.text.command_words import split_command

    hint = "As --command 'gunicorn app:app', or put it at the end: -- gunicorn app:app"
    try:
        words = split_command(command)
    except ValueError as error:
        raise ConfigError(f"--command: {error}", hint=hint) from error
    if not words:
        raise ConfigError("--command: names no program", hint=hint)
    return words


def given(parameters: Mapping[str, object]) -> Options:
    """The settings that were typed, of the *parameters* of a command: those that `SETTINGS` has."""
    from tuner.cli.shared.options import PLACES
    from tuner.config.load import Given

    return {
        place: Given(f"--{place[-1].replace('_', '-')}", text)
        for name, place in PLACES.items()
        if isinstance(text := parameters.get(name), str)
    }


@contextmanager
def told_of(option: str) -> Iterator[None]:
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


def check_nothing_asked(file: Path, options: Options, others: Mapping[str, object | None]) -> None:
    """A file of what was measured is shown, and takes no options of measuring; *others* is by their names.

    Raises:
        ConfigError: there are such options.
    """
    if named := [option.option for option in options.values()] + _typed(others):
        raise ConfigError(
            f"{file} is a finished measurement, so {', '.join(named)} cannot be used",
            hint="Leave it out. To continue an interrupted study, use --resume FILE alone.",
        )


def check_as_it_is(resumed: Path, others: Mapping[str, object | None]) -> None:
    """What is gone on with takes no options that are for a new one; *others* is by their names.

    Raises:
        ConfigError: there are such options.
    """
    if named := _typed(others):
        raise ConfigError(
            f"--resume continues {resumed} unchanged; {', '.join(named)} can only be used with a new study",
            hint="Leave it out.",
        )


def _typed(options: Mapping[str, object | None]) -> list[str]:
    return [f"--{name}" for name, value in options.items() if value is not None]


def asked_for(
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
