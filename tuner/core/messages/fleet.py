"""Warnings of a study on several hosts."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.messages.catalogue import warning
from tuner.core.text.figures import pluralize


@warning(
    "box-gone",
    "Another host repeats the launch that was lost.",
    "Fix the printed problem, and start `tuner box` on the host again ([fleet](fleet.md)).",
)
def box_gone(host: str, why: str) -> str:
    return f"{host} is gone: {why}"


@warning(
    "box-left-out",
    "",
    "Fix the printed problem, and start `tuner box` on the host again.",
)
def box_left_out(host: str, why: str) -> str:
    return f"{host} gets no more work: {why}"


@warning(
    "box-twice",
    "",
    "If this is one machine, stop one `tuner box`. If there are two machines, give them two host names.",
)
def box_twice(other: str) -> str:
    return f"this host is the same machine as {other}, or has the same host name, so it gets no work"


@warning(
    "launch-lost",
    "tuner repeats the launch that was lost.",
    "If this host loses more launches, read its log.",
)
def launch_lost(host: str, layout: Layout, why: str) -> str:
    return f"{host}: {layout}: {why}"


@warning(
    "needs-boxes",
    "The exit code becomes 5.",
    "Continue with `tuner grid --resume FILE` on more hosts, on a single host, or with a larger `--within`. "
    "[Several hosts](method/boxes.md) explains differences among hosts.",
)
def needs_boxes(n_hosts: int) -> str:
    return (
        f"the differences between layouts vary too much among {pluralize(n_hosts, 'host')}: more windows"
        " cannot decide, only more hosts"
    )
