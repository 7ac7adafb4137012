"""Warnings of a study on several hosts."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.messages import warning
from tuner.core.text.figures import pluralize


@warning(
    "box-gone",
    "If a host leaves a study on several hosts, another host repeats the unfinished measurement.",
    "Fix the printed problem, and start `tuner box` on the missing host again (see [Fleet](fleet.md)).",
)
def box_gone(host: str, why: str) -> str:
    return f"{host} is gone: {why}"


@warning(
    "box-left-out",
    "",
    "Fix the printed problem, and start `tuner box` on the printed host again.",
)
def box_left_out(host: str, why: str) -> str:
    return f"{host} gets no more work: {why}"


@warning(
    "box-twice",
    "",
    "If one machine joined the fleet twice, stop one of its `tuner box` commands. If two machines "
    "have the same host name, rename one machine.",
)
def box_twice(other: str) -> str:
    return f"this host is the same machine as {other}, or has the same host name, so it gets no work"


@warning(
    "launch-lost",
    "The results of a launch did not reach the study, so tuner repeats the launch.",
    "If results from the same host are lost again, read the log of this host.",
)
def launch_lost(host: str, layout: Layout, why: str) -> str:
    return f"{host}: the launch of {layout} was lost: {why}"


@warning(
    "needs-boxes",
    "If only more hosts can decide between the layouts, the study ends with exit code 5.",
    "Continue the study with `tuner grid --resume FILE` on more hosts, or on a single host (the result "
    "is then valid for this host only). Or accept a larger loss of throughput with `--within` (see "
    "[Several hosts](method/boxes.md)).",
)
def needs_boxes(n_hosts: int) -> str:
    return (
        f"the differences between layouts vary too much among {pluralize(n_hosts, 'host')}: more"
        " measurements on these hosts cannot decide"
    )
