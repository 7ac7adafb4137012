"""Warnings of the feeders, which send requests or fill a queue."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.core.domain.layout import Layout
from tuner.core.messages.catalogue import warning
from tuner.core.text.figures import pluralize


@warning(
    "address-found",
    "",
    "If tuner sends requests to a wrong address, set the right address with `--set url=...`.",
)
def address_found(found: str, configured: str) -> str:
    unchecked = "; its certificate is not checked" if found.startswith("https:") else ""
    return f"requests go to {found}, where the service listens, not to {configured}{unchecked}"


@warning(
    "certificate-unchecked",
    "",
    "No action is needed, because requests with unchecked certificates do not leave this host.",
)
def certificate_unchecked(address: str) -> str:
    return f"requests to {address} accept any certificate"


@warning(
    "clients-not-found",
    "",
    "Fix the printed problem, or set the number of HTTP clients, for example `--clients 64`.",
)
def clients_not_found(problem: str, n_clients: int) -> str:
    return (
        f"cannot find out how many clients keep every layout busy: {problem}; using {n_clients} clients,"
        " which may be too few (--clients N)"
    )


@warning(
    "connections-uneven",
    "",
    "To give all workers about the same number of connections, use `--connections even` (the default) "
    "or more `--clients` ([HTTP](http.md)).",
)
def connections_uneven(layout: Layout, window: int, fewest: float, most: float, starved_ratio: float) -> str:
    """Word it; *window* counts from 1."""
    return f"{layout} in window {window}: {uneven(fewest, most, starved_ratio)}"


def uneven(fewest: float, most: float, starved_ratio: float) -> str:
    """Describe the effect of uneven connections on one layout, as part of a sentence."""
    lost = f"{100 * starved_ratio:.0f} %"
    return (
        f"its workers had {fewest:.3g} to {most:.3g} connections each, so threads had no request for {lost}"
        f" of the time while other workers had too many; its throughput is about {lost} too low"
    )


@warning(
    "latency-at-saturation",
    "",
    "To limit the latency of users, set `--rate`: tuner then sends each request without waiting for "
    "earlier answers ([HTTP](http.md)).",
)
def latency_at_saturation() -> str:
    return (
        "the latency for max_p95 depends on the number of clients, because each client waits for an answer"
        " before its next request (latency is clients / throughput); set feeder.rate (--rate) to limit the"
        " latency of users"
    )


@warning(
    "queue-left",
    "",
    "When the broker answers again, type `tuner grid --resume FILE` to remove the messages "
    "([queues](queues.md)).",
)
def queue_left(layout: Layout, problem: str) -> str:
    return f"{layout}: cannot remove the messages that tuner fed: {problem}"


@warning(
    "queue-shared",
    "tuner starts the next layout only when the queue is empty.",
    "Find the program that sends these messages (perhaps the service itself), or use a separate queue.",
)
def queue_shared(layout: Layout, n_messages: int, queue: str) -> str:
    messages = pluralize(n_messages, "message")
    return f"{layout}: the queue {queue} holds {messages} that tuner did not feed; tuner leaves them there"


@warning(
    "requests-failed",
    "More than 1 % of the HTTP requests failed. A request is `closed` if its connection broke, and "
    "`garbage` if its answer is not HTTP. An `overdue` request was not sent, because `max_outstanding` "
    "other requests had no answer yet.",
    "Correct the URL or the service, or lower the rate of requests ([HTTP](http.md)).",
)
def requests_failed(layout: Layout, n_failed: int, n_requests: int, n_by_kind: Mapping[str, int]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in n_by_kind.items() if count)
    return f"{layout}: {n_failed} of {n_requests} requests failed: {kinds}"
