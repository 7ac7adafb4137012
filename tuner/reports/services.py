"""List of the known services, and the page of each service, as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.reports.text.formats import Table, render_table

_WIDTH = 14  #: width of the first column, in characters


def render_services(services: Sequence[Mapping[str, Any]]) -> str:
    """Return one line per service: name, summary, forms with their layouts, probe."""
    rows = tuple(
        (
            one["service"],
            ", ".join(f"{form['form']} {'PxT' if form['threads'] else 'Px-'}" for form in one["forms"]),
            one["probes"][0]["probe"],
            one["example"],
        )
        for one in services
    )
    return render_table(Table(("service", "forms", "counted by", "typed as"), rows, frozenset()), "simple")


def render_service(one: Mapping[str, Any]) -> str:
    """Return the page of one service, as `services.described` gives it."""
    lines = [f"{one['service']}: {one['summary']}.", ""]
    lines += _pair("typed as", f"tuner grid -- {one['example']}")
    lines += _pair("page", one["page"])
    for n, form in enumerate(one["forms"]):
        lines += ["", *_form(form, "the default" if n == 0 else f"--variants {form['form']}")]
        if form["without_gil"] is not None:
            lines += ["", *_form(form["without_gil"], f"{form['form']} on a Python whose GIL is off")]
    lines += ["", "Counted by"]
    for n, probe in enumerate(one["probes"]):
        default = " (default)" if n == 0 else f" (--set probe={probe['probe']})"
        if probe["forms"]:
            default += f", of {', '.join(probe['forms'])} only"
        lines += _pair(probe["probe"], f"{probe['counts']}{default}; costs {probe['costs']}")
    fed = one["fed_by"] or "nothing, until you set a feeder; see the page"
    lines += ["", *_pair("Fed by", fed)]
    if one["settings"]:
        lines += ["", "Settings, as --set NAME=VALUE or keys of the config's service"]
        for setting in one["settings"]:
            default = "" if setting["default"] is None else f"; default {setting['default']}"
            lines += _pair(setting["setting"], f"{setting['summary']}{default}")
    if one["advice"]:
        lines += ["", "Notes", *(f"  {line}" for line in one["advice"])]
    return "\n".join(lines) + "\n"


def _form(form: Mapping[str, Any], choice: str) -> list[str]:
    lines = [f"{form['form']}: {form['summary']} ({choice})"]
    processes = "one process" if form["workers"] == "threads" else "processes"
    counted = f"{processes} and {form['threads']}" if form["threads"] else "processes alone"
    started = "one program, which starts them" if form["programs"] == "one" else "a program each"
    lines += _pair("layouts", f"{counted}: {form['layout']}; {started}")
    reported = (form["told"], form["always"])
    for name in dict.fromkeys(name for one in reported for name in one["environment"]):
        words = " ".join(one["environment"][name] for one in reported if name in one["environment"])
        lines += _pair("environment", f"{name}={shlex.quote(words)}")
    if flags := [flag for one in reported for flag in one["flags"]]:
        lines += _pair("or flags" if form["told"]["environment"] else "flags", shlex.join(flags))
        if form["told"]["environment"]:
            lines += _pair("", f"where the command has {', '.join(form['told']['set_by'])}")
    if form["ready"] is not None:
        lines += _pair("ready", ", ".join(f"{key} {value}" for key, value in form["ready"].items()))
    stop = form["stop"]
    lines += _pair("stop", f"{stop['signal']}, KILL after {stop['wait']}")
    if form["loses"]:
        lines += _pair("loses", form["loses"])
    return lines


def _pair(name: str, text: str) -> list[str]:
    return [f"  {name:<{_WIDTH}}{text}"]
