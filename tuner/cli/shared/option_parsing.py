"""Command-line options of measuring commands as settings, and combinations that are invalid."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from tuner.core.errors import ConfigError, TunerError

if TYPE_CHECKING:
    from tuner.app.session import Options
    from tuner.core.domain.strategy import Slices


def service_options(service: str | None, settings: list[str] | None, command: str | None) -> Options:
    """Return the options of a service: its name, settings of a known service as KEY=VALUE, its command.

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
            raise ConfigError(
                f"invalid --set {text}: expected KEY=VALUE", hint="Example: --set url=http://127.0.0.1:8000/"
            )
        options["service", key.strip()] = Given(f"--set {key.strip()}", value)
    if command is not None:
        command_words(command)
        options["service", "command"] = Given("--", command)
    return options


def axis_options(axes: list[str] | None) -> Options:
    """Return the options of axes, given as NAME=VALUE,VALUE.

    Raises:
        ConfigError: the ``=`` is missing, the axis is unknown, or an axis is given twice.
    """
    from tuner.config.load import Given
    from tuner.config.variants import KNOWN_AXES

    options: Options = {}
    for text in axes or []:
        name, equals, values = text.partition("=")
        if not equals or name not in KNOWN_AXES:
            raise ConfigError(
                f"invalid --axis {text!r}: expected {KNOWN_AXES[0]}=VALUE,VALUE",
                hint="Example: --axis omp=1,2,auto. Other axes need a config: docs/your-service.md",
            )
        if ("service", "axes", name) in options:
            raise ConfigError(
                f"--axis {name} is typed twice", hint="Name all its values at once: omp=1,2,auto"
            )
        options["service", "axes", name] = Given(f"--axis {name}", values)
    return options


def command_words(command: str) -> list[str]:
    """Split the text of ``--command`` (also made from the words after ``--``) into words.

    Raises:
        ConfigError: the text cannot be split, or contains no word.
    """
    from tuner.core.text.command_words import split_command

    hint = "Example: --command 'gunicorn app:app', or put it at the end: -- gunicorn app:app"
    try:
        words = split_command(command)
    except ValueError as error:
        raise ConfigError(f"--command: {error}", hint=hint) from error
    if not words:
        raise ConfigError("--command: names no program", hint=hint)
    return words


def typed_options(parameters: Mapping[str, object]) -> Options:
    """Return the given options among the *parameters* of a command that are settings in `SETTINGS`."""
    from tuner.cli.shared.options import PLACES
    from tuner.config.load import Given

    return {
        place: Given(f"--{place[-1].replace('_', '-')}", text)
        for name, place in PLACES.items()
        if isinstance(text := parameters.get(name), str)
    }


def parse_slices(text: str | None) -> Slices | None:
    """Parse ``--slices`` of a command that does not measure a grid.

    Raises:
        ConfigError: *text* is neither auto nor off.
    """
    known: dict[str, Slices] = {"auto": "auto", "off": "off"}
    if text is None or text in known:
        return None if text is None else known[text]
    raise ConfigError(f"--slices {text}: should be {' or '.join(known)}")


def check_no_measuring_options(
    file: Path, options: Options, others: Mapping[str, object | None], *, allowed: str | None = None
) -> None:
    """Reject measuring options for a results file, which is only read; *others* maps names to values.

    *allowed* is the only option of a study that can be used with it.

    Raises:
        ConfigError: there are such options.
    """
    if named := [option.option for option in options.values()] + _given_options(others):
        leave = "Leave it out"
        if allowed is not None:
            leave += f": the settings are those of the file, and only {allowed} can differ"
        raise ConfigError(
            f"{file} is a finished measurement, so {', '.join(named)} cannot be used",
            hint=f"{leave}. To continue an interrupted study, use --resume FILE alone.",
        )


def check_as_it_is(resumed: Path, others: Mapping[str, object | None]) -> None:
    """Reject options of a new study when one is continued; *others* maps option names to values.

    Raises:
        ConfigError: there are such options.
    """
    if named := _given_options(others):
        raise ConfigError(
            f"--resume continues {resumed} unchanged; {', '.join(named)} can only be used with a new study",
            hint="Leave it out.",
        )


def _given_options(options: Mapping[str, object | None]) -> list[str]:
    return [f"--{name}" for name, value in options.items() if value is not None]


# The option --python: an axis of the service with one value per interpreter.


AXIS = "python"


def python_options(texts: Sequence[str] | None, simulate: Path | None, fleet: str | None) -> Options:
    """Return the interpreters of ``--python`` as settings of an axis; empty if none is given.

    Raises:
        ConfigError: one is not an interpreter, or this host does not run the service.
    """
    if not texts:
        return {}
    from tuner.bootstrap.parts import provenance
    from tuner.config.load import Given

    if fleet is not None:
        raise ConfigError(
            "--python names interpreters of this host, but --fleet measures on other hosts",
            hint="Name the interpreters in the config: service:"
            " {axes: {python: {NAME: {interpreter: PYTHON}, ...}}}",
        )
    if simulate is not None:
        raise ConfigError(
            "--python cannot be combined with --simulate: no service runs", hint="Leave one of them out."
        )
    return {
        ("service", "axes", AXIS, name, "interpreter"): Given(
            f"--python {words[0]}", shlex.join(word.replace("{", "{{").replace("}", "}}") for word in words)
        )
        for name, words in provenance.parse_pythons(texts).items()
    }


# Detection of a service's command without ``--`` before it.


def check_dashes(name: str, parameters: Sequence[Any], arguments: Sequence[str]) -> None:
    """Reject a service's command in place of a config, with a hint about ``--``.

    Args:
        name: The command of tuner.
        parameters: Typer's parameters of this command.
        arguments: The arguments of the command line after its name.

    Raises:
        TunerError: the first of *arguments* that is not an option is a program.
    """
    if not any("--command" in one.opts for one in parameters) or "--" in arguments:
        return
    valued = {option for one in parameters if not getattr(one, "is_flag", False) for option in one.opts}
    words = iter(enumerate(arguments))
    for at, word in words:
        if word in valued:
            next(words, None)
        elif not word.startswith("-"):
            if _is_program(word):
                typed = shlex.join([*arguments[:at], "--", *arguments[at:]])
                raise TunerError(
                    f"{word} is a program, where tuner {name} expects a config",
                    hint=f"Put -- before the command of a service: tuner {name} {typed}",
                )
            return


def _is_program(word: str) -> bool:
    """Return whether *word* is a program rather than a config."""
    from tuner.core.text.command_words import SHELLS, is_python
    from tuner.core.text.wrappers import WRAPPERS, is_assignment
    from tuner.services.catalogue import known_services

    path = PurePath(word)
    if os.path.exists(word):  # also False without permission to enter the folder
        is_file = os.path.isfile(word) and os.access(word, os.X_OK)
        return is_file and path.suffix not in (".yaml", ".yml", ".db")
    program = path.name
    if is_assignment(word) or is_python(program) or program in SHELLS or program in WRAPPERS:
        return True
    return shutil.which(word) is not None or known_services().started_by(program) is not None
