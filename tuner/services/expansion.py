"""Expansion of a service record and the user's command into the settings of a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

from tuner.core.errors import ConfigError
from tuner.core.messages.service import (
    computed_in_file,
    describe_queue,
    failures_counted,
    loses_at_stop,
    nothing_feeds,
    probe_costs,
    workers_are_threads,
)
from tuner.core.text.command_words import CommandWords, parse_command, split_command
from tuner.services.record import GIVEN, Arguments, Command, Counted, Form, ReadFile, Service
from tuner.services.running import escape_fields

#: whether the Python that a command runs has its GIL off, by its words and its environment
GilIsOff = Callable[[Sequence[str], Mapping[str, str]], bool]
#: version of a package in the Python that a command runs, by its words and its environment; empty: unknown
VersionOf = Callable[[str, Sequence[str], Mapping[str, str]], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Answers about the host of a service; by default, nothing is known."""

    gil_is_off: GilIsOff = lambda _words, _environment: False
    version_of: VersionOf = lambda _package, _words, _environment: ()
    read: ReadFile = lambda _path: None


class Unclear(ConfigError):
    """A setting of the user conflicts with the record; *key* names it in the service section."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def expand_service(
    service: Service,
    asked: Mapping[str, Any],
    environment: Mapping[str, str],
    variants: Sequence[str] | None,
    around: Surroundings | None = None,
) -> dict[str, Any]:
    """Return the section of a script: the user's section, *asked*, completed from the record *service*.

    The user's settings take precedence over the record's, and so does each variable of the environment.
    Variables that ``env`` sets before the command count as the user's.

    Args:
        service: the record.
        asked: the config's service section.
        environment: the environment that the service inherits: tuner's, and the environment file's.
        variants: the forms to compare, or the user's own variants; None: the form of the command.
        around: answers about the host, if a form or an option depends on them; None: nothing is known.

    Raises:
        Unclear: a form, a probe or a variable conflicts with the record, or there is no command.
    """
    around = around or Surroundings()
    if asked.get("variants") is not None:
        return _expand_variants(service, asked, environment, around)
    user = _user(service, asked, environment, around.read)
    settings = {one.name: value for one in service.settings if (value := one.value(user.command)) is not None}
    _check(service, user.command, settings, asked)
    feeder = asked.get("feeder")
    if isinstance(feeder, Mapping) and feeder.get("kind") == "queue":
        settings.setdefault("sample", str(feeder.get("sample")))  # the queue is fed, as with a setting
    forms, started = _forms(service, user.command, variants), _words(asked.get("command"))
    names = [form.name for form in forms]
    cautions: dict[str, str] = {}
    warn = cautions.__setitem__
    everything = {**environment, **user.variables}
    always = service.always
    if service.package:
        version = around.version_of(service.package, started, everything)
        forms = [form.in_version(version) for form in forms]
        always = Arguments() if version < always.since else always
        user = replace(user, needs_flags=user.needs_flags or () < version < service.variables_since)
    of_queue = _queue_additions(service, user.command, asked)
    if of_queue != Arguments():
        warn(*describe_queue(service.name, _added_by(of_queue, user)))
    if any(form.without_gil for form in forms) and around.gil_is_off(started, everything):
        forms = [form.without_gil or form for form in forms]
        if any(form.workers == "threads" for form in forms):
            warn(*workers_are_threads(service.name))
    section: dict[str, Any] = {"kind": "script", "record": service.name, "name": service.name}
    if variants is None and (file := user.command.file) is not None:
        for option in sorted(file.unclear & service.warned_if_computed.keys()):
            instead = service.warned_if_computed[option]
            if user.command.value(option, instead) is None:
                warn(*computed_in_file(service.name, file.name, instead, names[0]))
    if losses := [(form.name, form.loses) for form in forms if form.loses]:
        warn(*loses_at_stop(service.name, losses))
    counted = None
    if not isinstance(asked.get("probe"), Mapping):
        counted = _find_counted(service, user.command, asked.get("probe"), names)
        section["probe"] = dict(counted.section(user.command, settings))
        _check_count(section["probe"], feeder)
        if counted.cost_warning:
            warn(*probe_costs(counted.cost_warning))
        if counted.counts_too:
            warn(*failures_counted(service.name, counted.name, counted.counts_too))
    if "feeder" not in asked:
        if (found := service.feeder(user.command, settings)) is not None:
            section["feeder"] = dict(found)
        elif service.unfed:
            warn(*nothing_feeds(service.unfed))
    if not service.logs(user.command):
        forms = [replace(form, ready=None) for form in forms]
    data = {
        name: {
            **_merge(form.section(), asked),
            **_command_of_form(
                service, form, user, always, of_queue, Arguments() if counted is None else counted.arguments
            ),
        }
        for name, form in zip(names, forms, strict=True)
    }
    kept = {name: value for name, value in asked.items() if name not in {*user.settings, *_EXPANDED}}
    if isinstance(asked.get("probe"), Mapping):
        section["probe"] = asked["probe"]
    if variants is None:
        section |= {**kept, **data[names[0]]}
    else:
        section |= {**kept, "command": [*user.before, *user.command.words], "variants": data}
    carried = {name for of_form in data.values() for name in of_form["environment"]}
    own = {name: value for name, value in user.environment.items() if name not in carried}
    section["environment"] = {**section.get("environment", {}), **own}
    section["cautions"] = {**cautions, **_texts(asked.get("cautions"))}
    return section


QUEUE_SET = "queue-told"  #: caution if tuner adds the queue's name to the command
_EXPANDED = ("kind", "command", "environment", "probe", "record", "cautions")  #: keys that tuner replaces
#: keys of a variant, in addition to its command and environment
_OF_VARIANT = (
    "threads",
    "programs",
    "workers",
    "event_loop",
    "ready",
    "stop",
    "max_extra_threads",
    "os_threads",
)


@dataclass(frozen=True, slots=True)
class _User:
    """The user's settings."""

    command: Command
    before: tuple[str, ...]  #: words that start it: ``uv run``, ``python -m``
    environment: Mapping[str, Any]  #: of the config, and of ``env`` before the command
    settings: frozenset[str]  #: keys that are the record's
    hides_environment: bool = False  #: what starts the command keeps the environment from it
    needs_flags: bool = False  #: no variable reaches it, or its version is too old to read them

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment, as texts."""
        return _texts(self.environment)


#: options of ``uv run``, ``env`` and others that change the folder, so that a file may be another one
_CHANGE_FOLDER = ("--directory", "--chdir", "-C", "-D")


def with_file(service: Service, command: Command, taken: CommandWords, read: ReadFile) -> Command:
    """Return *command* with the options in its configuration file, unless it runs in another folder."""
    is_elsewhere = taken.has_setup or any(word.partition("=")[0] in _CHANGE_FOLDER for word in taken.before)
    return command if is_elsewhere else replace(command, file=service.of_file(command, read))


def _user(service: Service, asked: Mapping[str, Any], inherited: Mapping[str, str], read: ReadFile) -> _User:
    own = asked.get("environment")
    if own is not None and not isinstance(own, Mapping):
        raise Unclear("environment", "should be a mapping, as NAME: value")
    if "command" not in asked and (near := get_close_matches("command", map(str, asked), n=1)):
        raise Unclear("command", f"is missing; did you mean it by {near[0]}?")
    taken = parse_command(_words(asked.get("command")))
    environment = {**taken.assigned, **(own or {})}
    names = frozenset(setting.name for setting in service.settings)
    given = {name: str(value) for name, value in asked.items() if name in names and value is not None}
    everything = {**inherited, **_texts(environment)}
    before, words = before_program(taken, service)
    command = Command(words, everything, given, is_module=taken.is_module, grammar=service.grammar)
    command = with_file(service, command, taken, read)
    return _User(command, before, environment, names, taken.hides_environment, taken.hides_environment)


def before_program(taken: CommandWords, service: Service) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefix that starts the service, and the service's words, also after an unknown program."""
    before, words = (*taken.before, *taken.interpreter), taken.words
    if taken.program not in service.commands:
        for at, word in enumerate(words[1:], start=1):
            if PurePath(word).name in service.commands:
                return (*before, *words[:at]), words[at:]
    return before, words


def _merge(section: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a form, overridden by the user's; of ``stop``, each key."""
    found = {**section, **{name: asked[name] for name in _OF_VARIANT if name in asked}}
    if isinstance(asked.get("stop"), Mapping):
        found["stop"] = {**section.get("stop", {}), **asked["stop"]}
    return found


def _expand_variants(
    service: Service, asked: Mapping[str, Any], environment: Mapping[str, str], around: Surroundings
) -> dict[str, Any]:
    """Return the user's own variants (interpreters, allocators), each expanded as the service would be."""
    own = asked["variants"]
    if not isinstance(own, Mapping):
        raise Unclear("variants", "should be a mapping; name forms to compare under study: variants")
    plain = {name: value for name, value in asked.items() if name != "variants"}
    # nothing is started by the service's own Python
    section = expand_service(service, plain, environment, None, Surroundings(read=around.read))
    section["variants"] = {}
    for name, variant in own.items():
        other = variant if isinstance(variant, Mapping) else {}
        merged = {**_texts(asked.get("environment")), **_texts(other.get("environment"))}
        if isinstance(asked.get("stop"), Mapping) and isinstance(other.get("stop"), Mapping):
            other = {**other, "stop": {**asked["stop"], **other["stop"]}}
        try:
            asked_of_it = {**plain, **other, "environment": merged}
            one = expand_service(service, asked_of_it, environment, None, around)
        except Unclear as error:
            raise Unclear(error.key, f"of variant {name}: {error.problem}") from error
        keys = ("command", "environment", *_OF_VARIANT)
        section["variants"][name] = {key: one[key] for key in keys if key in one}
        if (reported := one["cautions"].get("workers-are-threads")) is not None:
            section["cautions"].setdefault("workers-are-threads", f"{name}: {reported}")
    return section


def _check_count(probe: Mapping[str, Any], feeder: Any) -> None:
    """Check that no feeder fills a queue whose remaining messages are the count."""
    kind = feeder.get("kind") if isinstance(feeder, Mapping) else None
    if probe.get("falls") == "yes" and "fed" not in probe and kind not in (None, "none", "queue"):
        raise Unclear(
            "feeder", "fills the queue, so the remaining messages give no count: name a probe, or a sample"
        )


def _check(service: Service, command: Command, settings: Mapping[str, str], asked: Mapping[str, Any]) -> None:
    """Raise Unclear for a command that cannot be measured, or cannot be fed because a setting is missing."""
    for option, why in service.refused.items():
        is_option = option.startswith("-")
        said_by = command.source(option) if is_option else option if option in command.words[1:2] else None
        if said_by is not None and said_by not in service.always.environment:  # tuner's value wins
            written = option if said_by == option else f"{said_by} ({option})"
            raise Unclear("command", f"has {written}: {why}")
    if "feeder" in asked:
        return
    for setting in service.settings:
        if setting.needed and setting.name not in settings:
            raise Unclear("command", f"{setting.needed}; set {setting.name}: {setting.summary}")


def check_queue_is_read(service: Service, asked: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Check that the command of a script, which starts *service*, reads the queue that its config feeds.

    Raises:
        Unclear: it names other queues.
    """
    taken = parse_command(_words(asked.get("command")))
    everything = {**environment, **taken.assigned, **_texts(asked.get("environment"))}
    command = Command(taken.words, everything, is_module=taken.is_module, grammar=service.grammar)
    _queue_additions(service, command, asked)


def _queue_additions(service: Service, command: Command, asked: Mapping[str, Any]) -> Arguments:
    """Return the settings that make *command* read the user's queue; empty if it does, or if its application
    selects the queues.

    Raises:
        Unclear: the command names other queues.
    """
    feeder = asked.get("feeder")
    of_feeder = feeder.get("queue") if isinstance(feeder, Mapping) and feeder.get("kind") == "queue" else None
    key = "queue" if "queue" in command.given else "feeder"
    queue = command.given.get("queue", of_feeder)
    if queue is None:
        return Arguments()
    reads = service.reads(command)
    if reads is not None and queue not in reads:
        raise Unclear(
            key,
            f"the command does not read {queue}, it reads {', '.join(reads)}: add {queue} to the command, or"
            f" name {reads[0]} here",
        )
    if reads is not None or service.queue_arguments is None:
        return Arguments()
    return service.queue_arguments(escape_fields(str(queue)))


def _added_by(additions: Arguments, user: _User) -> str:
    """Return the variables or options that name the queue, as they are typed."""
    variables = tuple(f"{name}={value}" for name, value in additions.environment.items())
    is_by_flags = user.needs_flags or additions.by_flags(user.command)
    return ", ".join((additions.flags or variables) if is_by_flags else variables)


def _words(command: Any) -> tuple[str, ...]:
    if isinstance(command, str):
        try:
            command = split_command(command)
        except ValueError as error:
            raise Unclear("command", str(error)) from error
    if not isinstance(command, Sequence) or not command:
        raise Unclear("command", "is missing: the command that starts the service, as you type it")
    return tuple("" if word is None else str(word) for word in command)


def _texts(mapping: Any) -> dict[str, str]:
    """Return a mapping of texts from a section of any type."""
    if not isinstance(mapping, Mapping):
        return {}
    return {str(name): "" if value is None else str(value) for name, value in mapping.items()}


def _forms(service: Service, command: Command, variants: Sequence[str] | None) -> list[Form]:
    names = [form.name for form in service.forms]
    if variants is None:
        asked = service.form_of(command) or names[0]
        if (form := service.form(asked)) is None:
            advice = f". {service.other_form}" if service.other_form else ""
            raise Unclear("command", f"names the form {asked}; expected one of {', '.join(names)}{advice}")
        return [form]
    forms = []
    for name in variants:
        if (form := service.form(name)) is None:
            raise Unclear("variants", f"{name} is none of {', '.join(names)}{_near(name, names)}")
        forms.append(form)
    return forms


def _find_counted(service: Service, command: Command, name: Any, forms: Sequence[str]) -> Counted:
    if name is None:
        if (counted := service.counted_by(*forms, command=command)) is None:
            raise Unclear("probe", f"no probe counts {', '.join(forms)} together; measure one at a time")
        return counted
    names = [counted.name for counted in service.probes]
    for counted in service.probes:
        if counted.name == name:
            if uncounted := [form for form in forms if counted.forms and form not in counted.forms]:
                raise Unclear("probe", f"{name} does not count {', '.join(uncounted)}")
            return counted
    raise Unclear("probe", f"{name} is none of {', '.join(names)}, nor a mapping{_near(str(name), names)}")


def _near(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _command_of_form(service: Service, form: Form, user: _User, *additions: Arguments) -> dict[str, Any]:
    """Return the command and the environment of a form, with the *additions* to the command."""
    command, variables = user.command, user.variables
    started = form.words(command)
    if started is None:
        raise Unclear("command", f"cannot be started as {form.name}: {form.summary}")
    taken = parse_command(started)  # a record may put env first, and that must stay first
    assigned = [f"{name}={value}" for name, value in taken.assigned.items()]
    words = list(taken.whole)
    environment: dict[str, str] = {}
    for one in (form.layout, *additions):
        is_by_flags = one.by_flags(command) or (user.needs_flags and bool(one.flags))
        if is_by_flags:
            at = words.index("--") if "--" in words else len(words)  # words after it are not options
            own_value = f"{escape_fields(given)}," if (given := command.option(*one.set_by)) else ""
            words[at:at] = [flag.replace(GIVEN, own_value) for flag in one.flags]
        own = {} if is_by_flags else one.environment
        for name, value in {**own, **one.more_environment}.items():
            if name not in service.joined:
                if name in variables:
                    raise Unclear("environment", f"tuner sets {name} for {service.name}; leave it out")
                environment[name] = value
                continue
            before = environment.get(
                name, variables.get(name, escape_fields(command.environment.get(name, "")))
            )
            environment[name] = f"{before}{service.separator(name)}{value}" if before else value
    hidden = {**variables, **environment} if user.hides_environment else {}
    lines = ["env", *(f"{name}={value}" for name, value in hidden.items())] if hidden else []
    return {
        "command": [*(["env", *assigned] if assigned else []), *user.before, *lines, *words],
        "environment": environment,
    }
