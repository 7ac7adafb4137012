"""tuner box: let this host measure launches of a study on a fleet."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.shared.options import Certs, Force


def box(
    scheduler: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="Address of the fleet's scheduler: tls://HOST:8786, or tcp://127.0.0.1:8786 through "
            "an SSH tunnel.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Unique name of this host in the fleet (default: the host name)."),
    ] = None,
    certs: Certs = None,
    force: Force = False,
) -> int:
    """Add this host to a fleet: studies then measure on this host, one layout at a time.

    The host connects to the scheduler, and connects again if the scheduler was down. After Ctrl-C or SIGTERM,
    the host leaves the fleet at the end of the current window; a second Ctrl-C stops the window. A host can
    be in one fleet only, and measures for one study at a time.

    Example: tuner box tls://staging-1:8786 --certs fleet-certs
    """
    from tuner.bootstrap.fleet import be_box
    from tuner.cli.shared.output import echo_err

    be_box(scheduler, name, certs, echo_err, is_forced=force)
    return 0
