"""Generator of commented starter configs, and descriptions of service records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from tuner.core.defaults import STOP_WAIT
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.text.command_words import parse_command
from tuner.services.expansion import Surroundings, expand_service, with_file
from tuner.services.record import Arguments, Command, Form, ReadFile, Service

_COLUMN = 32  #: where comments begin
_STUDY = """\

study:
  # cores: 24                   # number of CPU cores to plan layouts for; default: those available to tuner
  # layouts: [24x1, 4x6]        # measure only these; default: a grid for these cores
{variants}\
  window: 10m                   # longest window; a race takes shorter ones where they are enough
  within: 2%                    # the answer is at most this much slower than the best
  # budget: 8h                  # stop within this time and print what is known by then
  # max_load: 20                # highest load average of the best layout
  # max_memory: 8G              # most memory of the best layout
"""
_SCRIPT = """\
# A study of a script: tuner starts its command once per process of a layout.
service:
  kind: script
  name: {name}
  command: {command}
  # {{processes}}, {{threads}}, {{process}}, {{variant}}, {{cores}} are filled in, here and in `environment`.
  # Each process also has TUNER_PROCESSES, TUNER_THREADS and TUNER_PROCESS in its environment.
  threads: yes                  # no: the service has no threads to choose, only processes
  # environment: {{WORKER_THREADS: "{{threads}}"}}
  # programs: one               # start the command once: it starts {{processes}} workers itself
  # ready: {{kind: log, pattern: started, within: 60s}}
  stop: {{signal: TERM, wait: 60s}}   # time to finish running items
  probe:
    kind: mmap-counter          # the worker counts, with two lines of code; other probes: docs/probes.md
  feeder:
    kind: none                  # the worker finds its items itself; or command, http, queue
"""
_WEB = """\
# A study of a web server: tuner sends requests and counts the answers. It starts the command once per
# process of a layout, or once if the command starts its processes itself.
service:
  kind: script
  name: {name}
  command: {command}
  # {{processes}}, {{threads}}, {{process}}, {{variant}}, {{cores}} are filled in, here and in `environment`.
  # Each process also has TUNER_PROCESSES, TUNER_THREADS and TUNER_PROCESS in its environment.
  programs: {programs:<20}# one: start the command once, it starts {{processes}} workers itself;
                                # each: once per process; the processes share the port (SO_REUSEPORT), or
                                # the port has {{process}} in it
  threads: {threads:<21}# no: the service has no threads to choose, only processes
  # environment: {{WORKER_THREADS: "{{threads}}"}}
  # ready: {{kind: log, pattern: started, within: 60s}}
  stop: {{signal: TERM, wait: 60s}}   # time to finish running items
  probe:
    kind: generator             # counts good answers; other probes: docs/probes.md
  feeder:
    kind: http                  # docs/http.md
    url: {url}
    find_address: yes           # send requests to where the service listens, if that is another port or TLS
    # headers: {{Authorization: Bearer abc}}
    # requests: requests.jsonl  # requests to send in turn, one JSON object per line
"""


def web_starter(words: Sequence[str], url: str, name: str) -> str:
    """Return a config for a web server that tuner does not know, which may listen at *url*."""
    programs = "one" if any("{processes}" in word for word in words) else "each"
    threads = "yes" if any("{threads}" in word for word in words) else "no"
    config = _WEB.format(name=name, command=_flow(list(words)), url=url, programs=programs, threads=threads)
    return config + _STUDY.format(variants="")


def starter(
    service: Service | None,
    words: Sequence[str],
    given: Mapping[str, str],
    environment: Mapping[str, str],
    name: str,
    hide: Callable[[Any], Any],
    read: ReadFile = lambda _path: None,
) -> str:
    """Return the text of a config.

    Args:
        service: the record of the service that *words* start; None: a script.
        words: the command.
        given: settings of the record that the user has named.
        environment: the environment of the command.
        name: of a script.
        hide: removes secrets found in the environment.
        read: see `Surroundings`.
    """
    if service is None:
        return _SCRIPT.format(name=name, command=_flow(list(words))) + _STUDY.format(variants="")
    taken = parse_command(words)
    looked_at = Command(taken.words, environment, given, grammar=service.grammar)
    looked_at = with_file(service, looked_at, taken, read)
    own = service.form_of(looked_at) or service.forms[0].name
    counted = service.counted_by(own, command=looked_at) or service.probes[0]
    others = [form.name for form in service.forms if form.name != own]
    variants = ""
    if others:
        named = _line("# variants", _flow([own, *others]), "variants to compare")
        variants = f"{named}\n"
    lines = [
        f"# A study of {service.name}: {service.page}, tuner services show {service.name}",
        "service:",
        f"  kind: {service.name}",
        f"  command: {_flow(list(words))}",
        *_settings(service, looked_at, hide),
        *_probes(service, given.get("probe", counted.name)),
        *_made_of_it(service, words, given, environment, hide, read),
    ]
    return "\n".join(lines) + "\n" + _STUDY.format(variants=variants)


def _settings(service: Service, command: Command, hide: Callable[[Any], Any]) -> list[str]:
    lines = []
    for setting in service.settings:
        value = setting.value(command)
        if setting.name in command.given:
            lines.append(_line(setting.name, _flow(command.given[setting.name]), setting.summary))
        elif value is None:
            lines.append(_line(f"# {setting.name}", "...", setting.summary))
        else:
            how = "default" if setting.find(command) is None else "found"
            lines.append(_line(f"# {setting.name}", _flow(hide(value)), f"{setting.summary} ({how})"))
    return lines


def _probes(service: Service, name: str) -> list[str]:
    own = next(counted for counted in service.probes if counted.name == name)
    others = [counted for counted in service.probes if counted is not own]
    return [
        _line("probe", name, f"counts {own.counts}"),
        *(_line("# probe", one.name, f"counts {one.counts}; costs {one.costs}") for one in others),
    ]


def _made_of_it(
    service: Service,
    words: Sequence[str],
    given: Mapping[str, str],
    environment: Mapping[str, str],
    hide: Callable[[Any], Any],
    read: ReadFile,
) -> list[str]:
    asked: dict[str, Any] = {"kind": service.name, "command": list(words), **given}
    section = hide(expand_service(service, asked, environment, None, Surroundings(read=read)))
    lines = ["  # Keys that tuner sets; a key of yours overrides them."]
    keys = ("threads", "programs", "ready", "stop", "feeder")
    lines += [f"  #   {key}: {_flow(section[key])}" for key in keys if key in section]
    if section["environment"]:
        lines.append("  #   environment:")
        lines += [f"  #     {_flow({name: value})[1:-1]}" for name, value in section["environment"].items()]
    if section["command"] != list(words):
        lines.append(f"  #   tuner starts: {_flow(section['command'])}")
    return lines


def _line(key: str, value: str, comment: str) -> str:
    return f"  {key}: {value} ".ljust(_COLUMN) + f"# {comment}"


def _flow(value: Any) -> str:
    """Return *value* as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


# Contents of a record as plain data, for people and programs.


_EXAMPLE = (2, 3)  #: processes and threads of the layout that is shown


def describe_record(service: Service) -> dict[str, Any]:
    """Return the record *service* as mappings, lists and texts; its example layouts are 2x3 and 2x-."""
    return {
        "service": service.name,
        "summary": service.summary,
        "page": service.page,
        "example": service.example,
        "commands": list(service.commands),
        "forms": [_form(form, service) for form in service.forms],
        "probes": [
            {
                "probe": counted.name,
                "counts": counted.counts,
                "costs": counted.costs,
                "warning": counted.cost_warning or None,
                "forms": list(counted.forms) or None,
            }
            for counted in service.probes
        ],
        "fed_by": _fed_by(service),
        "settings": [
            {"setting": one.name, "summary": one.summary, "default": one.default} for one in service.settings
        ],
        "advice": list(service.advice),
    }


def _form(form: Form, service: Service) -> dict[str, Any]:
    processes, threads = _EXAMPLE if form.threads else (_EXAMPLE[0], 1)
    if form.workers == "threads":
        processes = 1
    layout = Layout(processes, threads, has_threads=bool(form.threads))
    return {
        "form": form.name,
        "summary": form.summary,
        "threads": form.threads or None,
        "programs": form.programs,
        "workers": form.workers,
        "layout": str(layout),
        "told": _describe_additions(form.layout, layout),
        "always": _describe_additions(service.always, layout),
        "ready": None if form.ready is None else dict(form.ready),
        "stop": {"signal": "TERM", "wait": STOP_WAIT, "as_group": "no", **form.stop},
        "loses": form.loses or None,
        "without_gil": None if form.without_gil is None else _form(form.without_gil, service),
    }


def _describe_additions(reported: Arguments, layout: Layout) -> dict[str, Any]:
    """Return the variables and flags of *layout*."""
    fields = ("TUNER_COUNTER_DIR", "TUNER_STATSD", "TUNER_PROBE_PORT")
    spec = ServiceSpec("", reported.flags, reported.environment, probe_fields=fields)
    environment = spec.environment_of(layout, 0, 2)
    return {
        "environment": {name: environment[name] for name in reported.environment},
        "flags": list(spec.command_line(layout, 0, 2)),
        "set_by": list(reported.set_by),
    }


def _fed_by(service: Service) -> str | None:
    """Return the kind of feeder that the example's command gets; None: the user feeds it."""
    from tuner.services.expansion import expand_service

    feeder = expand_service(service, {"command": service.example}, {}, None).get("feeder")
    return str(feeder["kind"]) if isinstance(feeder, Mapping) else None
