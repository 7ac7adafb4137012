"""tuner services: the services that tuner has records of, and their settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tuner.cli.shared.options import AsJson, words_of_services
from tuner.core.errors import ConfigError

SCHEMA_VERSION = 1  #: version of the JSON; it increases when a field changes its meaning or is removed


def services(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[show NAME]",
            autocompletion=words_of_services,
            help="Name of the service to describe (default: tuner lists all services).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the services that tuner knows, or describe one of them.

    tuner measures a known service unmodified: `tuner grid -- COMMAND`. In the command of any other service (a
    script), write {processes} and {threads} in place of the numbers: `tuner grid -- worker --threads
    {threads}`.

    Example: tuner services show gunicorn
    """
    from tuner.bootstrap import configs
    from tuner.cli.shared.output import show
    from tuner.reports.services import render_service, render_services

    known = configs.describe_services()
    names = [word for n, word in enumerate(words or []) if n > 0 or word != "show"]
    if not names and not words:
        show(_json({"services": known}) if as_json else render_services(known))
        return 0
    if len(names) != 1:
        raise ConfigError(
            f"show: expected one service, not {len(names)}", hint="Example: tuner services show gunicorn"
        )
    found = configs.describe_service(names[0])
    typer.echo(_json(found) if as_json else render_service(found), nl=False)
    return 0


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps({"schema_version": SCHEMA_VERSION, **facts}, indent=2) + "\n"
