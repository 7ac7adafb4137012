"""What a record says, as plain data for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.core.defaults import STOP_WAIT
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.services.record import Form, Service, Told

_EXAMPLE = (2, 3)  #: processes and threads of the layout that is shown


def describe_record(service: Service) -> dict[str, Any]:
    """The record *service* as mappings, lists and texts; the layouts shown in it are 2x3 and 2x-."""
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


def _describe_additions(reported: Told, layout: Layout) -> dict[str, Any]:
    """What the environment and the flags are in *layout*."""
    fields = ("TUNER_COUNTER_DIR", "TUNER_STATSD", "TUNER_PROBE_PORT")
    spec = ServiceSpec("", reported.flags, reported.environment, probe_fields=fields)
    environment = spec.environment_of(layout, 0, 2)
    return {
        "environment": {name: environment[name] for name in reported.environment},
        "flags": list(spec.command_line(layout, 0, 2)),
        "set_by": list(reported.set_by),
    }


def _fed_by(service: Service) -> str | None:
    """The kind of feeder that the example's command gets; None: the user feeds it."""
    from tuner.services.expansion import expand_service

    feeder = expand_service(service, {"command": service.example}, {}, None).get("feeder")
    return str(feeder["kind"]) if isinstance(feeder, Mapping) else None
