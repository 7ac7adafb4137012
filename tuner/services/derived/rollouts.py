"""Rollout of a layout: the production command and environment, from the config stored in a study."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.core.defaults import STOP_WAIT
from tuner.core.domain.layout import Layout
from tuner.core.domain.rollout import PROCESS, Rollout
from tuner.core.domain.service import cores_per_process
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import parse_command
from tuner.core.text.figures import parse_duration
from tuner.core.text.safe_text import HIDDEN
from tuner.services.crash_processor import MODULE, PROGRAM
from tuner.services.expansion import QUEUE_SET
from tuner.services.record import GIVEN, Arguments, Command, Counted, Form, Service

_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_LAYOUT_FIELDS = {"processes", "threads", "process"}
_OPTION = re.compile(r"--([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_NAMES = {"environment": r"[A-Za-z_][A-Za-z0-9_]*", "limits": r"[a-z]+"}
_SIGNAL = re.compile(r"[A-Z][A-Z0-9]*")
_SPOOL = "SPOOL"  #: placeholder for a folder of the study


def rollout_of(
    section: Mapping[str, Any], layout: Layout, cores: int, services: Mapping[str, Service]
) -> Rollout:
    """Return the production start of *layout*, without the parts that only served the measurement.

    Args:
        section: the service section of a study's config, as its file keeps it.
        layout: one of the study's layouts.
        cores: the value of ``{cores}``; ``{cores_per_process}`` follows from it.
        services: the known records, by name.

    Raises:
        ConfigError: the record that the study was made with is not installed here.
    """
    _check_names(section)
    if section.get("kind") != "script":
        return _crash_processor(section, layout, cores)
    own = dict((section.get("variants") or {}).get(layout.variant) or {})
    merged = {**section, **{name: value for name, value in own.items() if value is not None}}
    record = merged.get("record")
    if record is not None and record not in services:
        raise ConfigError(
            f"the study is of the service {record}, whose record is not installed here",
            hint="Install the package that brings it, or make the snippet where the study was made.",
        )
    service = None if record is None else services[record]
    measured = _MeasuredCommand(
        tuple(map(str, merged.get("command") or ())),
        {**_texts(section.get("environment")), **_texts(own.get("environment"))},
        _texts(section.get("probe")),
    )
    form = None if service is None else _form_of(service, merged, layout, measured)
    words, environment = measured.words, measured.environment
    own_words, options = words, Arguments()
    overriding: tuple[str, ...] = ()
    if service is not None and form is not None:
        measured = replace(measured, of_queue=_queue_additions(service, merged, measured.environment))
        words, environment = _without_measuring(service, measured)
        kept_flags = tuple(flag for flag in service.always.flags if flag not in service.measuring_only)
        options = Arguments(flags=(*form.layout.flags, *kept_flags))
        own_words = _without(_without(words, kept_flags), form.layout.flags)
        overriding = form.layout.set_by
        if form.layout.environment and _looked_at(own_words, service).has(*overriding):
            words = (*own_words, *form.layout.flags, *kept_flags)  # else the command's own flags would win
    words, environment, remarks = _without_probe_fields(words, environment)
    own_words, _, _ = _without_probe_fields(own_words, {})
    is_needed = _is_command_needed(words, own_words, layout, service) or _is_another_command(
        section, measured
    )
    if service is not None:
        looked_at = _looked_at(own_words, service)
        own_words = (*own_words[: -len(looked_at.words)], *looked_at.without(*overriding))
    n_programs = 1 if merged.get("programs") == "one" else layout.processes
    alone = None if service is None or service.alone_words is None else service.alone_words(measured.words)
    if alone is not None and n_programs == 1:
        words, own_words, alone = alone, _without(alone, options.flags), None
    n_workers = layout.as_processes.processes if merged.get("workers") == "pools" else layout.processes
    fill = _Filling(layout, cores, n_workers, PROCESS if n_programs > 1 else "0")
    if service is None or (form is not None and _reads_variables(form, service)):
        environment = {**_layout_variables(layout), **environment}  # it may use these
    hidden = tuple(
        name for name, value in environment.items() if HIDDEN in value and not _contains_layout(value)
    )
    environment = {name: value for name, value in environment.items() if name not in hidden}
    if service is not None and service.in_production and _needs_queue_options(service, n_programs):
        remarks.append(fill(service.in_production))
    if any(HIDDEN in text for text in (*words, *environment.values())):
        remarks.append(f"Studies keep no secrets: put yours in place of {HIDDEN}.")
    if merged.get("environment_file"):
        remarks.append(f"In the study the environment of {merged['environment_file']} was there as well.")
    return Rollout(
        service=str(merged.get("name")),
        kind="script" if service is None else service.name,
        layout=layout,
        command=tuple(map(fill, words)),
        alone_command=None if alone is None else tuple(map(fill, alone)),
        own_command=tuple(map(fill, own_words)),
        environment={name: fill(value) for name, value in environment.items()},
        options=_options(map(fill, options.flags)),
        overriding=overriding,
        is_command_needed=is_needed,
        n_programs=n_programs,
        names={} if service is None else {name: fill(value) for name, value in service.names.items()},
        serves_http=_texts(section.get("feeder")).get("kind") == "http",
        remarks=tuple(remarks),
        hidden=hidden,
        **_running(merged),
    )


def _check_names(section: Mapping[str, Any]) -> None:
    """Check names and signals, which snippets contain literally: a forged file may hold invalid ones."""
    for part in (section, *(section.get("variants") or {}).values()):
        for key, pattern in _NAMES.items():
            for name in part.get(key) or {}:
                if re.fullmatch(pattern, name, re.ASCII) is None:
                    raise ConfigError(f"the study's service has {name!r} in its {key}, which is no name")
        signal = str((part.get("stop") or {}).get("signal", "TERM"))
        if _SIGNAL.fullmatch(signal) is None:
            raise ConfigError(f"the study's service is stopped by {signal!r}, which is no signal")


@dataclass(frozen=True, slots=True)
class _MeasuredCommand:
    """The command that a study started, with its fields."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    probe: Mapping[str, str]
    of_queue: Arguments = field(default_factory=Arguments)  #: arguments for a queue of the study only


@dataclass(frozen=True, slots=True)
class _Filling:
    """Fills in the fields of a text; those of a probe stay."""

    layout: Layout
    cores: int
    n_workers: int  #: worker processes
    process: str

    def __call__(self, text: str) -> str:
        values = {
            "processes": str(self.layout.processes),
            "threads": str(self.layout.threads),
            "process": self.process,
            "variant": self.layout.variant,
            "cores": str(self.cores),
            "cores_per_process": str(cores_per_process(self.cores, self.n_workers)),
        }

        def value(match: re.Match[str]) -> str:
            return match[0][0] if match[1] is None else values.get(match[1], match[0])

        return _FIELD.sub(value, text)


def _crash_processor(section: Mapping[str, Any], layout: Layout, cores: int) -> Rollout:
    """Return the rollout; the spool is the user's if the study named it, and finished items are not put
    back.
    """
    spool = section.get("spool")
    variant: Mapping[str, Any] = (section.get("variants") or {}).get(layout.variant) or {}
    merged = {
        name: {**_texts(section.get(name)), **_texts(variant.get(name))}
        for name in ("options", "environment")
    }
    before = [*(variant.get("prepend") or ()), *(section.get("prepend") or ())]
    section = {**section, **{name: value for name, value in variant.items() if value is not None}, **merged}
    interpreter = section.get("interpreter")
    run_by = [PROGRAM] if interpreter is None else [*map(str, interpreter), "-m", MODULE]
    own = [*map(str, before), *run_by, "run", "--fs-root", str(spool or _SPOOL)]
    for name, value in _texts(section.get("options")).items():
        own += [f"--{name.replace('_', '-')}", value]
    threads = {"number-of-threads": str(layout.threads)}
    remarks = [] if spool else [f"Put the folder of your spool in place of {_SPOOL}."]
    if interpreter is not None:
        remarks.append(f"Install tuner, which has the worker, for {interpreter[0]}.")
    environment = _texts(section.get("environment"))
    fill = _Filling(layout, cores, layout.processes, PROCESS if layout.processes > 1 else "0")
    return Rollout(
        service=str(section.get("name") or PROGRAM),
        kind=PROGRAM,
        layout=layout,
        command=(*own, *(f"--{name}={value}" for name, value in threads.items())),
        own_command=tuple(own),
        environment={name: fill(value) for name, value in environment.items() if HIDDEN not in value},
        options=threads,
        is_command_needed=True,
        n_programs=layout.processes,
        remarks=tuple(remarks),
        hidden=tuple(name for name, value in environment.items() if HIDDEN in value),
        **_running(section),
    )


def _running(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are the same for every kind of service."""
    stop = section.get("stop") or {}
    return {
        "stop_signal": str(stop.get("signal", "TERM")),
        "stop_wait_s": parse_duration(str(stop.get("wait", STOP_WAIT))),
        "stop_as_group": bool(stop.get("as_group", False)),
        "directory": section.get("directory"),
        "user": section.get("user"),
        "limits": {name: int(value) for name, value in (section.get("limits") or {}).items()},
    }


def _layout_variables(layout: Layout) -> dict[str, str]:
    """Return the variables that tuner sets for every worker; see ``ServiceSpec``."""
    names = ("processes", "threads", "process", *(["variant"] if layout.variant else []))
    return {f"TUNER_{name.upper()}": f"{{{name}}}" for name in names}


def _reads_variables(form: Form, service: Service) -> bool:
    """Return whether the only setting of threads in a record is the variable that tuner sets for every
    worker.
    """
    return bool(form.threads) and form.layout == Arguments() and not service.in_production


def _needs_queue_options(service: Service, n_programs: int) -> bool:
    """Return whether the record's sentence on queue options applies to this number of programs."""
    return "{" in service.in_production or (n_programs > 1 and not service.names)


def _is_command_needed(
    words: Sequence[str], own_words: Sequence[str], layout: Layout, service: Service | None
) -> bool:
    """Return whether the command is needed because the environment alone does not set the layout."""
    is_own_variant = bool(layout.variant) and (service is None or service.form(layout.variant) is None)
    return is_own_variant or tuple(words) != tuple(own_words) or any(map(_contains_layout, words))


def _is_another_command(section: Mapping[str, Any], measured: _MeasuredCommand) -> bool:
    """Return whether a form replaced the user's command, such as ``rq worker-pool`` by ``rq worker``."""
    own = tuple(map(str, section.get("command") or ()))
    return bool(section.get("variants")) and measured.words[: len(own)] != own


def _contains_layout(text: str) -> bool:
    return not _LAYOUT_FIELDS.isdisjoint(match[1] for match in _FIELD.finditer(text))


def _looked_at(
    words: tuple[str, ...], service: Service, environment: Mapping[str, str] | None = None
) -> Command:
    """Return the parsed command of *words*, without prefixes: ``nice -n 5`` has options of its own."""
    return Command(parse_command(words).words, environment or {}, grammar=service.grammar)


def _form_of(
    service: Service, merged: Mapping[str, Any], layout: Layout, measured: _MeasuredCommand
) -> Form | None:
    """Return the form that a study started: that of the variant, else the one whose words are present."""
    if (form := service.form(layout.variant)) is not None:
        return form
    candidates = [
        form
        for form in service.every_form
        if form.programs == merged.get("programs") and _is_applied(form.layout, measured)
    ]
    asked = service.form_of(_looked_at(measured.words, service, measured.environment))
    named = [form for form in candidates if form.name == asked]
    longest = sorted(candidates, key=lambda form: -len(form.layout.flags) - len(form.layout.environment))
    return next(iter([*named, *longest]), None)


def _is_applied(one: Arguments, measured: _MeasuredCommand) -> bool:
    is_set = bool(one.environment) and all(
        value in measured.environment.get(name, "") for name, value in one.environment.items()
    )
    return is_set or one == Arguments() or _place(measured.words, one.flags) is not None


def _queue_additions(
    service: Service, section: Mapping[str, Any], environment: Mapping[str, str]
) -> Arguments:
    """Return the variables that set the queue only for the study's workers, by the study's cautions."""
    if service.queue_arguments is None or QUEUE_SET not in (section.get("cautions") or {}):
        return Arguments()
    names = service.queue_arguments("").environment
    return Arguments({name: environment[name] for name in names if name in environment})


def _without_measuring(
    service: Service, measured: _MeasuredCommand
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return words and environment without the probe and the record's measuring options."""
    words, environment = service.production_words(measured.words), dict(measured.environment)
    unwanted = [one.arguments for one in service.probes if _is_in_use(one, measured)]
    measuring = service.measuring_only
    of_always = service.always.environment.items()
    variables = {name: value for name, value in of_always if {name, *value.split()} & {*measuring}}
    unwanted.append(Arguments(variables))
    unwanted.append(measured.of_queue)
    for flag in service.always.flags:
        if flag in measuring:
            words = _without(words, (flag,))
    for one in unwanted:
        words = _without(words, tuple(flag for flag in one.flags if GIVEN not in flag))
        words = tuple(word for word in words if not any(_is_filled(word, flag) for flag in one.flags))
        for name, value in {**one.environment, **one.more_environment}.items():
            if environment.get(name) == value:
                del environment[name]
            elif name in service.joined and name in environment:
                between = service.separator(name)
                kept = _without(tuple(environment[name].split(between)), tuple(value.split(between)))
                environment[name] = between.join(kept)
    return words, {name: value for name, value in environment.items() if value or name not in service.joined}


def _is_filled(word: str, flag: str) -> bool:
    """Return whether *word* is *flag* with a value of the command in place of `GIVEN`."""
    before, given, after = flag.partition(GIVEN)
    return bool(given) and word.startswith(before) and word.endswith(after)


def _is_in_use(counted: Counted, measured: _MeasuredCommand) -> bool:
    """Return whether the words of *counted* in a command come from tuner: they contain a value that only a
    launch has, or belong to the probe that was used.
    """
    additions = counted.arguments
    texts = (*additions.flags, *additions.environment.values(), *additions.more_environment.values())
    return any("{TUNER_" in text for text in texts) or counted.name in measured.probe.values()


def _without(words: tuple[str, ...], flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return *words* without *flags* at their last occurrence: tuner's follow the user's."""
    place = _place(words, flags)
    return words if place is None else (*words[:place], *words[place + len(flags) :])


def _place(words: tuple[str, ...], flags: tuple[str, ...]) -> int | None:
    if not flags:
        return None
    places = range(len(words) - len(flags), -1, -1)
    return next((at for at in places if words[at : at + len(flags)] == flags), None)


def _without_probe_fields(
    words: tuple[str, ...], environment: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str], list[str]]:
    """Return words and environment without the user's settings for the probe, and notes on what was
    dropped.
    """
    kept: list[str] = []
    left_out: list[str] = []
    for word in words:
        if not _is_of_probe(word):
            kept.append(word)
            continue
        if not word.startswith("-") and kept and kept[-1].startswith("-") and "=" not in kept[-1]:
            left_out.append(kept.pop())
        left_out.append(word)
    variables = [name for name, value in environment.items() if _is_of_probe(value)]
    rest = {name: value for name, value in environment.items() if name not in variables}
    reported = [*([" ".join(left_out)] if left_out else []), *variables]
    remarks = [f"Left out, because only tuner's probe needs it: {', '.join(reported)}."] if reported else []
    return tuple(kept), rest, remarks


def _is_of_probe(text: str) -> bool:
    return any((match[1] or "").startswith("TUNER_") for match in _FIELD.finditer(text))


def _options(flags: Iterable[str]) -> dict[str, str]:
    """Return ``--workers=4`` as workers: 4; an option without a value is ``true``."""
    found = (_OPTION.fullmatch(flag) for flag in flags)
    return {match[1]: "true" if match[2] is None else match[2] for match in found if match is not None}


def _texts(mapping: Any) -> dict[str, str]:
    if not isinstance(mapping, Mapping):
        return {}
    return {str(name): "" if value is None else str(value) for name, value in mapping.items()}
