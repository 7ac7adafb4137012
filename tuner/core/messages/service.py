"""Warnings about a service and its command, before any measurement."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.messages.catalogue import warning


@warning(
    "failures-counted",
    "",
    "Feed items that do not fail, or choose another way to count with `--set probe=NAME`. For Celery, "
    "`--set probe=finished` counts failed items separately.",
)
def failures_counted(service: str, probe: str, counts_too: str) -> str:
    return f"{service}: the probe `{probe}` counts {counts_too}"


@warning(
    "loses-at-stop",
    "",
    "Feed only items that may be lost, because tuner stops the service after each measured layout.",
)
def loses_at_stop(service: str, losses: Sequence[tuple[str, str]]) -> str:
    """Word it by the name of each form, and what it loses."""
    lost = "; ".join(f"{form} loses {what}" for form, what in losses)
    return f"when {service} is stopped, {lost}"


@warning(
    "nothing-feeds",
    "",
    "tuner sends no items to this service, so follow the printed advice. With the config key `feeder: "
    "{kind: command, ...}`, tuner starts your program that sends items.",
)
def nothing_feeds(advice: str) -> str:
    return advice


@warning(
    "probe-costs",
    "",
    "Counting the items costs CPU time, so throughput without counting is higher. The comparison of "
    "layouts is valid. `tuner services show NAME` lists other ways to count items.",
)
def probe_costs(cost: str) -> str:
    return cost


@warning(
    "queue-told",
    "",
    "No action is needed.",
)
def describe_queue(service: str, added: str) -> str:
    return (
        f"the command names no queue, so tuner starts its workers with {added} while it measures {service};"
        " the command in production stays as it is"
    )


@warning(
    "service-behind",
    "For a script, tuner feeds no items, and cannot set the layout of a service that the script starts.",
    "If the script starts the service that the message names, add the printed option.",
)
def service_behind(program: str, service: str) -> str:
    return f"{program} is measured as a script. If it starts {service}, add --service {service}"


@warning("workers-are-threads", "", "No action is needed ([details](services/granian.md)).")
def workers_are_threads(service: str) -> str:
    return (
        f"{service} starts threads instead of worker processes, because its Python runs without a GIL: a"
        " layout is one process, such as 1x4 with four workers"
    )
