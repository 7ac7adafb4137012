"""From a known service and the user's command to the settings of a script."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from tuner.core.errors import ConfigError
from tuner.services.record import Command, Counted, Form, Service
from tuner.services.running import escaped


class Unclear(ConfigError):
    """What a user says does not go with the record; *key* of the service section is to blame."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def expanded(
    service: Service, asked: Mapping[str, Any], environment: Mapping[str, str], variants: Sequence[str] | None
) -> dict[str, Any]:
    """The section of a script: the user's, *asked*, with all that the record *service* knows filled in.

    What the user wrote goes before what the record says; of the environment, each variable.

    Args:
        service: the record.
        asked: the config's service section.
        environment: tuner's own, which the service inherits.
        variants: the forms to measure beside each other; None: the one that the command asks for.

    Raises:
        Unclear: a form, a probe or a variable does not go with the record, or there is no command.
    """
    own = {setting.name for setting in service.settings}
    given = {name: str(value) for name, value in asked.items() if name in own and value is not None}
    variables = _texts(asked.get("environment"))
    command = Command(_words(asked.get("command")), {**environment, **variables}, given)
    settings = {one.name: value for one in service.settings if (value := one.value(command)) is not None}
    _check(service, command, settings, asked)
    forms = _forms(service, command, variants)
    section: dict[str, Any] = {"kind": "script", "record": service.name, "name": service.name}
    cautions: dict[str, str] = {}
    warn = cautions.__setitem__
    if losses := [f"{form.name} loses {form.loses}" for form in forms if form.loses]:
        warn("loses-at-stop", f"{service.name} when it is stopped: {'; '.join(losses)}")
    counted = None
    if not isinstance(asked.get("probe"), Mapping):
        counted = _counted(service, asked.get("probe"), [form.name for form in forms])
        section["probe"] = dict(counted.section(command, settings))
        if counted.cost_warning:
            warn("probe-costs", counted.cost_warning)
    if "feeder" not in asked:
        feeder = service.feeder(command, settings)
        if feeder is not None:
            section["feeder"] = dict(feeder)
        elif service.unfed:
            warn("nothing-feeds", service.unfed)
    if not service.logs(command):
        forms = [replace(form, ready=None) for form in forms]
    told = {form.name: _told(service, form, counted, command, variables) for form in forms}
    if variants is None:
        section |= {**forms[0].section(), **told[forms[0].name]}
    else:
        section["command"] = list(command.words)
        section["variants"] = {form.name: {**form.section(), **told[form.name]} for form in forms}
    section |= {name: value for name, value in asked.items() if name not in {*own, *_EXPANDED}}
    if isinstance(asked.get("probe"), Mapping):
        section["probe"] = asked["probe"]
    carried = {name for of_form in told.values() for name in of_form["environment"]}
    kept = {name: value for name, value in variables.items() if name not in carried}
    section["environment"] = {**section.get("environment", {}), **kept}
    section["cautions"] = {**cautions, **_texts(asked.get("cautions"))}
    return section


def _check(service: Service, command: Command, settings: Mapping[str, str], asked: Mapping[str, Any]) -> None:
    """Refuse a command that cannot be measured, or cannot be fed for want of a setting."""
    for option, why in service.refused.items():
        if command.has(option):
            raise Unclear("command", f"has {option}: {why}")
    if "feeder" in asked:
        return
    for setting in service.settings:
        if setting.needed and setting.name not in settings:
            raise Unclear("command", f"{setting.needed}; say {setting.name}: {setting.summary}")


_EXPANDED = (
    "kind",
    "command",
    "environment",
    "probe",
    "record",
    "cautions",
)  #: keys that are worked in


def _words(command: Any) -> tuple[str, ...]:
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError as error:
            raise Unclear("command", f"cannot be split into words: {error}") from error
    if not isinstance(command, Sequence) or not command:
        raise Unclear("command", "is missing: the command that starts the service, as you type it")
    return tuple("" if word is None else str(word) for word in command)


def _texts(mapping: Any) -> dict[str, str]:
    """Of a section that may be anything: what is no mapping is told where settings are checked."""
    if not isinstance(mapping, Mapping):
        return {}
    return {str(name): "" if value is None else str(value) for name, value in mapping.items()}


def _forms(service: Service, command: Command, variants: Sequence[str] | None) -> list[Form]:
    names = [form.name for form in service.forms]
    if variants is None:
        asked = service.form_of(command) or names[0]
        if (form := service.form(asked)) is None:
            raise Unclear("command", f"asks for {asked}; known are {', '.join(names)}")
        return [form]
    forms = []
    for name in variants:
        if (form := service.form(name)) is None:
            raise Unclear("variants", f"{name} is none of {', '.join(names)}{_near(name, names)}")
        forms.append(form)
    return forms


def _counted(service: Service, name: Any, forms: Sequence[str]) -> Counted:
    if name is None:
        return service.counted_by(*forms)
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


def _told(
    service: Service, form: Form, counted: Counted | None, command: Command, variables: Mapping[str, str]
) -> dict[str, Any]:
    """The command and the environment of a form."""
    started = form.words(command)
    if started is None:
        raise Unclear("command", f"cannot be started as {form.name}: {form.summary}")
    words = list(started)
    environment: dict[str, str] = {}
    for one in (form.layout, service.always, *([] if counted is None else [counted.told])):
        if one.by_flags(command):
            at = words.index("--") if "--" in words else len(words)  # what follows is no option
            words[at:at] = one.flags
            continue
        for name, value in one.environment.items():
            if name not in service.joined:
                if name in variables:
                    raise Unclear(
                        "environment", f"{name} is what tuner tells {service.name} with; leave it out"
                    )
                environment[name] = value
                continue
            before = environment.get(name, variables.get(name, escaped(command.environment.get(name, ""))))
            environment[name] = f"{before} {value}".strip()
    return {"command": words, "environment": environment}
