"""Settings from a config file or a command, with the records of services."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from tuner.bootstrap.parts.services import WEB, url_of, web_script
from tuner.bootstrap.seen_through import (
    Behind,
    cannot_watch,
    find_service_command,
    named_later,
    started_elsewhere,
)
from tuner.core.errors import ConfigError
from tuner.core.text.address import bound_ports
from tuner.core.text.command_words import parse_command, split_command
from tuner.core.text.wrappers import is_assignment

if TYPE_CHECKING:
    from tuner.config.document import Place
    from tuner.config.load import DocumentLook, Given
    from tuner.config.settings import Settings
    from tuner.services.expansion import GilIsOff, VersionOf
    from tuner.services.record import Service

_COMMAND = ("service", "command")
_OWN_KINDS = ("crash-processor", "script")


def settings_of(
    config: Path | None,
    options: Mapping[Place, Given],
    *,
    without: Collection[str] = (),
    kept: Mapping[str, Any] | None = None,
    look: DocumentLook | None = None,
) -> Settings:
    """Return the settings of a config and of options, with a known service expanded by its record.

    A command among the options belongs to the known service that it starts, else to a script. *kept* are the
    settings of a study to resume, *look* is called with its config; see `load_settings`.

    Raises:
        ConfigError: contains every error, each with its place.
    """
    from tuner.config.load import load_settings

    folder = Path.cwd() if config is None else config.resolve().parent

    def section(asked: Mapping[str, Any], variants: Sequence[str] | None) -> Mapping[str, Any]:
        if _COMMAND in options:
            asked = _from_the_command_line(asked, folder)
        return _expand(asked, variants, folder)

    return load_settings(config, options, without=without, service=section, kept=kept, look=look)


def _from_the_command_line(asked: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return the service section for a typed command: its kind and, for a script, its name."""
    try:
        words = tuple(split_command(str(asked["command"])))
    except ValueError:
        return {"kind": "script", **asked}
    kind = asked.get("kind")
    more: dict[str, Any] = {}
    if kind is None:
        behind = find_service_command(words, None, folder)
        _refuse_hidden(behind)
        kind = "script" if behind.service is None else behind.service.name
        if kind == "script" and (found := named_later(words)) is not None:
            warn = more.setdefault("cautions", {}).__setitem__
            from tuner.core.messages.service import service_behind

            warn(*service_behind(words[0], found.name))
    if kind in ("script", WEB) and asked.get("name") is None:
        more["name"] = _name_of(words)
    return {**more, **asked, "kind": kind}


def _refuse_hidden(behind: Behind) -> None:
    """Refuse a known service that a shell starts in a way in which tuner cannot set its layout."""
    from tuner.config.fields import Misplaced

    if behind.hidden is not None:
        raise Misplaced(
            f"starts {behind.hidden.name} by a shell, but {behind.why}, so tuner cannot add options to it."
            f" Give the command of {behind.hidden.name} itself, as {behind.hidden.example}",
            ("command",),
        )


def _name_of(words: Sequence[str]) -> str:
    """Return the name of a script: its program, or for Python its script or module."""
    taken = parse_command(words)
    named = [word for word in (taken.program, *taken.words, *taken.interpreter) if word and word[0] != "-"]
    name = re.sub(r"[^A-Za-z0-9._-]", "", PurePath(named[0]).stem) if named else ""
    return name.lstrip("._-")[:64] or "script"


def _expand(asked: Mapping[str, Any], variants: Sequence[str] | None, folder: Path) -> Mapping[str, Any]:
    from tuner.config.fields import Misplaced, nearest

    kind = asked.get("kind")
    if kind in ("script", WEB):
        if kind == "script":
            _check_queue(asked)
        return _script_as_it_runs(asked)
    if not isinstance(kind, str) or kind in _OWN_KINDS:
        return asked
    from tuner.config.variants import script_with_variants
    from tuner.services.catalogue import known_services
    from tuner.services.expansion import Surroundings, Unclear, expand_service

    services = known_services()
    if kind not in services:
        known = [*_OWN_KINDS, WEB, *services]
        raise Misplaced(f"{kind} is none of {', '.join(known)}{nearest(kind, known)}", ("kind",))
    _refuse_misspelt(asked, [setting.name for setting in services[kind].settings])
    environment = {**os.environ, **_of_file(asked, folder)}
    section = script_with_variants(_as_it_runs(asked, services[kind], environment, folder), folder)
    try:
        return expand_service(
            services[kind],
            section,
            environment,
            variants,
            Surroundings(_gil_is_off(asked, folder), _version_of(asked, folder), _reader(asked, folder)),
        )
    except Unclear as error:
        below = ("study", "variants") if error.key == "variants" else (error.key,)
        raise Misplaced(error.problem, below) from error


def _as_it_runs(
    asked: Mapping[str, Any], service: Service, environment: Mapping[str, str], folder: Path
) -> Mapping[str, Any]:
    """Return the section with its commands as they will be run; see `find_service_command`."""
    from tuner.config.fields import Misplaced

    own = asked.get("environment")
    if isinstance(own, Mapping):
        environment = {**environment, **{str(name): str(value) for name, value in own.items()}}
    changed = dict(asked)
    if (words := _words_of(asked.get("command"))) is not None:
        directory = asked.get("directory")
        behind = find_service_command(
            words, environment, folder / directory if isinstance(directory, str) else folder, service
        )
        _refuse_hidden(behind)
        if why := cannot_watch(behind.taken):
            raise Misplaced(why, ("command",))
        if behind.words != words:
            changed["command"] = [*behind.words]
    if isinstance(variants := asked.get("variants"), Mapping):
        changed["variants"] = {
            name: _as_it_runs(variant, service, environment, folder)
            if isinstance(variant, Mapping)
            else variant
            for name, variant in variants.items()
        }
    return changed


def _script_as_it_runs(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the section of a script: ``A=1 worker`` runs by ``env``, and a web server gets a feeder."""
    from tuner.config.fields import Misplaced

    words = _words_of(asked.get("command"))
    variants = asked.get("variants")
    for name, section in (variants if isinstance(variants, Mapping) else {}).items():
        of_variant = _words_of(section.get("command")) if isinstance(section, Mapping) else None
        if of_variant and (why := started_elsewhere(parse_command(of_variant))):
            raise Misplaced(why, ("variants", str(name), "command"))
    if words and (why := started_elsewhere(parse_command(words))):
        raise Misplaced(why, ("command",))
    if words is not None and is_assignment(words[0]) and len(words) > 1:
        asked = {**asked, "command": ["env", *words]}
    return asked if asked["kind"] == "script" else web_script(asked, words or ())


def _words_of(command: Any) -> tuple[str, ...] | None:
    """Return the words of a config's command; None: it is missing, or cannot be split."""
    try:
        words = split_command(command) if isinstance(command, str) else command
    except ValueError:
        return None
    if not isinstance(words, Sequence) or not words:
        return None
    return tuple("" if word is None else str(word) for word in words)


def _check_queue(asked: Mapping[str, Any]) -> None:
    """Check the queue of a script whose command starts a known service; other checks are elsewhere."""
    from tuner.config.fields import Misplaced
    from tuner.services.catalogue import recognise

    command = asked.get("command")
    if asked.get("variants") or asked.get("axes"):
        return  # each may have a separate command
    try:
        words = split_command(command) if isinstance(command, str) else [str(word) for word in command or ()]
        found = recognise(words)
    except (TypeError, ValueError):
        return
    if found is None:
        return
    from tuner.services.expansion import Unclear, check_queue_is_read

    try:
        check_queue_is_read(found, asked, os.environ)
    except Unclear as error:
        raise Misplaced(error.problem, (error.key,)) from error


def _gil_is_off(asked: Mapping[str, Any], folder: Path) -> GilIsOff:
    """Return a function that runs a command's Python in the directory of *asked*, to check its GIL."""
    from tuner.adapters.provenance import interpreter_facts

    def is_off(command: Sequence[str], environment: Mapping[str, str]) -> bool:
        try:
            directory = _directory_of(asked, folder)
        except ValueError:  # the check of the settings reports it
            return False
        return interpreter_facts(command, environment, directory).get("worker_gil") == "off"

    return is_off


def _version_of(asked: Mapping[str, Any], folder: Path) -> VersionOf:
    """Return a function that runs a command's Python in the directory of *asked*, to read a version."""
    from tuner.adapters.provenance import package_version

    def version_of(package: str, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, ...]:
        try:
            return package_version(package, command, environment, _directory_of(asked, folder))
        except ValueError:  # the check of the settings reports it
            return ()

    return version_of


def _reader(asked: Mapping[str, Any], folder: Path) -> Callable[[str], str | None]:
    """Return a function that reads a file by its path in the directory of *asked*."""

    def read(path: str) -> str | None:
        try:
            return (Path(_directory_of(asked, folder) or "") / path).read_text(encoding="utf-8")
        except (OSError, ValueError):  # the service reports it
            return None

    return read


def _directory_of(asked: Mapping[str, Any], folder: Path) -> str | None:
    from tuner.config.document import with_home

    named = asked.get("directory")
    return str(folder / with_home(Path(named))) if isinstance(named, str) else None


def _refuse_misspelt(asked: Mapping[str, Any], settings: Sequence[str]) -> None:
    """Refuse an unknown key that is close to one of this service's own *settings*.

    All other unknown keys are refused when the expanded section is checked.
    """
    from difflib import get_close_matches

    from tuner.config.fields import Misplaced
    from tuner.config.service import ScriptSettings

    known = [*settings, *ScriptSettings.model_fields]
    for key in map(str, asked):
        if key not in known and (near := get_close_matches(key, known, n=1)) and near[0] in settings:
            raise Misplaced(f"unknown key, did you mean {near[0]}?", (key,))


def _of_file(asked: Mapping[str, Any], folder: Path) -> Mapping[str, str]:
    """Return the variables of the environment file, which may hold addresses of a known service."""
    from tuner.config.document import check_file, with_home
    from tuner.config.environment_file import read_environment_file
    from tuner.config.fields import Misplaced

    file = asked.get("environment_file")
    if not isinstance(file, str):
        return {}
    try:
        path = check_file(folder / with_home(Path(file)))
    except ValueError as error:
        raise Misplaced(str(error), ("environment_file",)) from error
    return read_environment_file(path)


def describe_services() -> list[dict[str, Any]]:
    """Return the description of each known service; see `tuner.services.derived.starter`."""
    from tuner.services.catalogue import known_services
    from tuner.services.derived.starter import describe_record

    return [describe_record(service) for service in known_services().values()]


def describe_service(name: str) -> dict[str, Any]:
    """Return the description of the service called *name*.

    Raises:
        ConfigError: there is no such service.
    """
    from difflib import get_close_matches

    from tuner.services.catalogue import known_services
    from tuner.services.derived.starter import describe_record

    services = known_services()
    if name not in services:
        near = get_close_matches(name, services, n=1)
        raise ConfigError(
            f"unknown service {name!r}",
            hint=f"Did you mean {near[0]}?" if near else "tuner services lists the supported services.",
        )
    return describe_record(services[name])


def render_config_for(
    words: Sequence[str],
    kind: str | None,
    given: Mapping[str, str],
    section: Mapping[str, Any] | None = None,
    origin: str = "--",
) -> str:
    """Render a commented config for the command *words*, as a start for the user; see `derived.starter`.

    *section* has the further keys of the service, which `start_files` adds to the text; they are checked with
    the command. *origin* names the source of both in error messages.

    Raises:
        ConfigError: the service, or one of the settings *given* for it, is unknown or invalid.
    """
    from tuner.config.load import Given
    from tuner.core.text.safe_text import redact
    from tuner.services.catalogue import known_services
    from tuner.services.derived.starter import starter, web_starter

    options: dict[Place, Given] = {
        ("service", name): Given(f"--set {name}", value) for name, value in given.items()
    }
    environment: Mapping[str, str] = (section or {}).get("environment", {})
    for name, value in environment.items():
        options["service", "environment", name] = Given(f"{origin}: {name}", value)
    if section is not None and "directory" not in given:
        options["service", "directory"] = Given(origin, str(section["directory"]))
    options["service", "command"] = Given(origin, shlex.join(words))
    if kind is not None:
        options["service", "kind"] = Given("--service", kind)
    settings_of(None, options)  # raises its errors
    around = {**os.environ, **environment}
    own = known_services().get(kind) if kind is not None else None
    behind = find_service_command(words, around, Path.cwd(), own)
    service = own or behind.service
    words = behind.words
    if kind == WEB or (service is None and kind is None and bound_ports(words)):
        return web_starter(words, given.get("url", url_of(words)), _name_of(words))
    return starter(service, words, given, around, _name_of(words), redact, _reader({}, Path.cwd()))
