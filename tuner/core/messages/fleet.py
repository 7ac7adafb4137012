"""Warnings of a study on several hosts."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.messages.catalogue import warning
from tuner.core.text.figures import pluralize


@warning(
    "box-gone",
    "Another host repeats the launch.",
    "Find the reason, and start `tuner box` again ([fleet](fleet.md)).",
)
def box_gone(host: str, why: str) -> str:
    return f"{host} is gone: {why}"


@warning(
    "box-left-out",
    "",
    "Fix the reason and restart its `tuner box`.",
)
def box_left_out(host: str, why: str) -> str:
    return f"{host} gets no more work: {why}"


@warning(
    "box-twice",
    "",
    "Stop one of the two `tuner box`, or give two machines different host names.",
)
def box_twice(other: str) -> str:
    return f"it is the same machine as {other}, or has its name, and gets no work"


@warning(
    "launch-lost",
    "The launch is repeated.",
    "If it happens again, read the log of that host.",
)
def launch_lost(host: str, layout: Layout, why: str) -> str:
    return f"{host}: {layout}: {why}"


@warning(
    "needs-boxes",
    "The exit code becomes 5.",
    "`tuner grid --resume FILE` with more hosts, a larger `--within`, or a single host."
    " [Several hosts](method/boxes.md) explains such differences.",
)
def needs_boxes(n_hosts: int) -> str:
    return (
        f"layouts differ too much between {pluralize(n_hosts, 'host')}: it takes more hosts, not more "
        "windows, to decide"
    )
