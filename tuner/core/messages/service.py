"""Warnings about a service: its command, the probe that counts its items, and the feeder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.messages import warning, with_reasons
from tuner.core.text.figures import pluralize


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
    """Return the text; *losses*: the name of each form, and its loss."""
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
    "Counting the items costs CPU time, so throughput without counting is higher, but the comparison "
    "of layouts is valid. `tuner services show NAME` lists other ways to count items.",
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


@warning("workers-are-threads", "", "No action is needed (see [granian](services/granian.md)).")
def workers_are_threads(service: str) -> str:
    return (
        f"{service} starts threads instead of worker processes, because its Python runs without a GIL: a"
        " layout is one process, such as 1x4 with four workers"
    )


if TYPE_CHECKING:
    from tuner.core.domain.layout import Layout
    from tuner.core.text.statsd import Passed

_MOST_NAMES = 5


@warning(
    "count-restarted",
    "If a count of items restarts from 0, tuner misses the items that finished since it last read the count.",
    "Find out why the count of items restarted. A restart is normal if workers replace themselves "
    "(`max-requests`) or Celery's broker was down. A launch fails if its count of items restarts more "
    "than three times.",
)
def count_restarted(source: str, series: str, before: float, after: float) -> str:
    fell = f"{series} fell from {before:g} to {after:g}"
    return f"{source} restarted its count: {fell}; earlier counts are kept"


@warning(
    "cross-check-gap",
    "The measurement stays valid, although tuner could not compare it with the second probe (`cross_check`).",
    "Follow the advice for the invalid window `probe-gap`.",
)
def cross_check_gap(layout: Layout, probe: str, gap_s: float, problem: str) -> str:
    gap = with_reasons(f"{probe} had no new count for {gap_s:.1f} s", problem)
    return f"{layout}: {gap}; its window is not checked"


@warning(
    "log-cut",
    "If a log becomes very long, tuner itself deletes the beginning of the log (`log-long`).",
    "Let logrotate rename the log (`create`) instead of truncating it (`copytruncate`), or log less.",
)
def log_cut(layout: Layout, log: object, n_times: int) -> str:
    return (
        f"{layout}: {log} was truncated, rewritten or freed {pluralize(n_times, 'time')}; lines that were not"
        " read before are not counted"
    )


@warning(
    "log-lines-long",
    "",
    "Choose a `pattern` that matches at the beginning of the log line, or log shorter lines.",
)
def log_lines_long(layout: Layout, log: object, n_lines: int) -> str:
    lines = f"{pluralize(n_lines, 'longer line')} of {log}"
    return f"{layout}: the probe searched only the first 64 KiB of {lines}"


@warning(
    "packets-lost",
    "",
    "Follow the advice for the invalid window `packets-lost`.",
)
def packets_lost(layout: Layout, n_packets: int) -> str:
    dropped = f"the kernel dropped {pluralize(n_packets, 'packet')} to statsd"
    return f"{layout}: {dropped}, so their counts are missing"


@warning(
    "statsd-lines",
    "",
    "If tuner cannot read statsd lines, correct the code of the service that sends them. If statsd "
    "lines have a type other than counter (`|c`), set the config key `probe.name` to the name of a "
    "counter. If statsd lines are not metrics, find the program that sends them.",
)
def statsd_lines(layout: Layout, why: Passed, n_lines: int, names: str, example: str) -> str:
    lines = pluralize(n_lines, "line")
    of_names = f"{lines} of {names} sent to statsd"
    problem = {
        "unreadable": f"could not read {of_names}, so the windows they came in are invalid",
        "other-type": f"did not count {of_names}, because their type is not counter (c)",
        "no-metric": f"did not count {lines} sent to statsd, because they are not metrics",
    }[why]
    return f"{layout}: {problem}; for example '{example}'"


@warning(
    "statsd-names",
    "",
    "Set the config key `probe.name` to a counter that the warning lists. Statsd clients often add a "
    "prefix to the counter's name.",
)
def statsd_names(layout: Layout, names: str, others: Sequence[str]) -> str:
    more = " and others" if len(others) > _MOST_NAMES else ""
    return f"{layout}: statsd received no counter {names}, but {', '.join(others[:_MOST_NAMES])}{more}"


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
    "or more `--clients` (see [HTTP](http.md)).",
)
def connections_uneven(layout: Layout, window: int, fewest: float, most: float, starved_ratio: float) -> str:
    """Return the text; *window* counts from 1."""
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
    "earlier answers (see [HTTP](http.md)).",
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
    "(see [Queues](queues.md)).",
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
    "computed-in-file",
    "tuner reads the configuration file of a service without running it, so a value that code computes is "
    "unknown.",
    "Add the printed option to the command, with the value that production uses.",
)
def computed_in_file(service: str, file: str, option: str, form: str) -> str:
    return f"code in {file} sets {option} of {service}, and tuner does not run it; tuner measures {form}"


@warning(
    "requests-failed",
    "More than 1 % of the HTTP requests failed. A request is `closed` if its connection broke, and "
    "`garbage` if its answer is not HTTP. An `overdue` request was not sent, because `max_outstanding` "
    "other requests had no answer yet.",
    "Correct the URL or the service, or lower the rate of requests (see [HTTP](http.md)).",
)
def requests_failed(
    layout: Layout,
    n_failed: int,
    n_requests: int,
    n_by_kind: Mapping[str, int],
    last_status: Mapping[int, int],
) -> str:
    last = {f"{first}xx": f" (last status: {status})" for first, status in last_status.items()}
    kinds = ", ".join(f"{count} {kind}{last.get(kind, '')}" for kind, count in n_by_kind.items() if count)
    return f"{layout}: {n_failed} of {n_requests} requests failed: {kinds}"


@warning(
    "requests-redirected",
    "tuner does not follow redirects, and counts each one as a finished item. So it measures only the "
    "redirect, not the page.",
    "Set the URL of the page itself, for example `--set url=http://127.0.0.1:8000/page/`. If the page needs "
    "a login or HTTPS behind a proxy, set request headers (see [HTTP](http.md)).",
)
def redirected(layout: Layout, n_redirected: int, n_answers: int, status: int) -> str:
    return (
        f"{layout}: {n_redirected} of {n_answers} answers are redirects (status {status}), which count as"
        " finished items"
    )
