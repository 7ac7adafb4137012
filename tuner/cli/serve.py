"""tuner serve: studies as live web pages."""

from __future__ import annotations

import platform
import signal
from pathlib import Path
from typing import Annotated

import typer

from tuner.core.text.address import LOOPBACK

PORT = 8765
_EVERYBODY = ("0.0.0.0", "::")


_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(
    studies: Annotated[
        list[Path],
        typer.Argument(metavar="STUDY...", help="Study files to show, or folders with study files."),
    ],
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            show_default=False,
            help=f"Port on which the web server listens, or 0 for a free port (default: {PORT}).",
        ),
    ] = PORT,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            show_default=False,
            help=(
                f"Address on which the web server listens (default: {LOOPBACK}). If other hosts can reach "
                f"the address, visitors need the printed token."
            ),
        ),
    ] = LOOPBACK,
) -> int:
    """Show studies in a browser, on web pages that update while the studies run.

    The pages are those of `tuner report`, with the current state. Only this host can reach the pages unless
    you set --host. Visitors from other hosts need the token in the printed address. Ctrl-C stops the server.

    Example: tuner serve crash-processor.tuner.db
    """
    from tuner.app import serving
    from tuner.cli.shared.output import echo_err
    from tuner.core.text.address import Address, listening_at

    ends = {one for one in _ENDS if signal.getsignal(one) is not signal.SIG_IGN}  # nohup's HUP is ignored
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, ends
    )  # the server's threads inherit the mask; sigwait receives the signals
    try:
        with serving.serve_studies(studies, listening_at(host, port)) as served:
            where = served.address
            shown = Address(platform.node() or "localhost", where.port) if where.host in _EVERYBODY else where
            beside = "" if served.token is None else f"?token={served.token}"
            echo_err(f"Serving at http://{shown}/{beside} (Ctrl-C ends it)")
            if served.token is not None:
                echo_err("Anyone with this address can read the studies. The connection is not encrypted.")
            signal.sigwait(ends)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 0
