"""tuner fleet: keys and scheduler of a fleet, and the list of its hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.shared.options import AsJson, Certs, Force, one_of
from tuner.core.errors import ConfigError
from tuner.core.text.address import LOOPBACK, PORT

SCHEMA_VERSION = 1  #: version of the JSON; it increases when a field changes its meaning or is removed
_EXAMPLES = {
    "scheduler": "tuner fleet scheduler --host 0.0.0.0 --certs fleet-certs",
    "certs": "tuner fleet certs fleet-certs --host staging-1",
    "boxes": "tuner fleet boxes tls://staging-1:8786 --certs fleet-certs",
}


def fleet(
    what: Annotated[
        str,
        typer.Argument(
            metavar="scheduler|certs|boxes",
            autocompletion=one_of(*_EXAMPLES),
            help="Action: run the scheduler of a fleet, create its keys, or list its hosts.",
        ),
    ],
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR|ADDRESS]",
            help=(
                "Folder for the keys (only for `certs`), or address of the scheduler whose hosts tuner lists."
            ),
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help=(
                "For `scheduler`, the address on which the scheduler listens (default: 127.0.0.1); for "
                "`certs`, a host name in the keys."
            ),
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            show_default=False,
            help=f"Port on which the scheduler listens, or 0 for a free port (default: {PORT}).",
        ),
    ] = PORT,
    certs: Certs = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Connect hosts to a fleet: run one scheduler, and `tuner box` on each host.

    `tuner fleet certs DIR` creates the keys of the fleet. Copy the folder to every host and keep it secret.
    `tuner fleet scheduler` connects the hosts and the study; run the scheduler on a host that does not
    measure. `tuner fleet boxes ADDRESS` lists the connected hosts.

    Example: tuner fleet scheduler --host 0.0.0.0 --certs fleet-certs
    """
    if what not in _EXAMPLES:
        raise ConfigError(f"invalid command: tuner fleet {what}", hint=f"Example: {_EXAMPLES['scheduler']}")
    if (where is None) != (what == "scheduler"):
        wrong = (
            f"unexpected argument {where!r}"
            if where
            else "expected " + ("the address of the scheduler" if what == "boxes" else "a folder")
        )
        raise ConfigError(f"tuner fleet {what}: {wrong}", hint=f"Example: {_EXAMPLES[what]}")
    others = {
        "--host": bool(host) and what == "boxes",
        "--port": port != PORT and what != "scheduler",
        "--certs": certs is not None and what == "certs",
        "--force": force and what == "certs",
        "--json": as_json and what != "boxes",
    }
    if named := [option for option, is_odd in others.items() if is_odd]:
        raise ConfigError(f"tuner fleet {what} has no {', '.join(named)}", hint=f"Example: {_EXAMPLES[what]}")
    if what == "scheduler":
        return _scheduler(host or [LOOPBACK], port, certs, force=force)
    if what == "certs":
        return _certs(Path(str(where)), host or [])
    return _boxes(str(where), certs, force=force, as_json=as_json)


def _scheduler(hosts: list[str], port: int, certs: Path | None, *, force: bool) -> int:
    from tuner.bootstrap.fleet import be_scheduler
    from tuner.cli.shared.output import echo_err

    if len(hosts) > 1:
        raise ConfigError(
            f"a scheduler listens at one --host, not at {len(hosts)}", hint="0.0.0.0: everywhere."
        )
    be_scheduler(
        hosts[0],
        port,
        certs,
        lambda at: echo_err(f"To connect a host, run there: tuner box {at} (Ctrl-C stops this scheduler)"),
        is_forced=force,
    )
    return 0


def _certs(folder: Path, hosts: list[str]) -> int:
    from tuner.bootstrap.fleet import new_certificates

    for file in new_certificates(folder, hosts):
        typer.echo(str(file))
    return 0


def _boxes(address: str, certs: Path | None, *, force: bool, as_json: bool) -> int:
    from tuner.bootstrap.fleet import connected_hosts

    found = connected_hosts(address, certs, is_forced=force)
    if as_json:
        facts = [
            {
                "name": box.name,
                "host": box.host,
                "cores": box.cores,
                "tuner": box.tuner,
                "busy": box.is_busy,
                "seen_s_ago": round(box.seen_s_ago, 3),
                "address": box.address,
            }
            for box in found
        ]
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "boxes": facts}, indent=2))
        return 0
    from tuner.reports.ranking.boxes import render_hosts

    typer.echo(
        render_hosts(
            [(box.name, box.host, box.cores, box.tuner, box.is_busy, box.seen_s_ago) for box in found]
        ),
        nl=False,
    )
    return 0
