"""Parts shared by records of queue services: queue settings, feeder and probe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tuner.services.expansion import Unclear
from tuner.services.record import Command, Counted, Section, Setting

DEFAULT_URL = "redis://127.0.0.1:6379/0"
#: of messages that left a queue: their result is unknown. One that comes back to be retried
#: makes up for its attempt before
ALSO_FAILED = "failed items, too"

GATE_REASON = (
    "Each layout has a separate queue, because a broker may give the messages of a frozen worker to others."
)


def queue_settings(
    default_queue: str,
    url: Callable[[Command], str | None],
    queue: Callable[[Command], str | None] = lambda _command: None,
) -> tuple[Setting, ...]:
    """Return the settings for broker, queue and sample; *url* and *queue* extract them from the command."""
    return (
        Setting("url", "the server that its queue is in", url, DEFAULT_URL),
        Setting("queue", "the queue that is fed and counted", queue, default_queue),
        Setting("sample", "file of `tuner sample`; tuner feeds the queue with copies of its messages"),
    )


def redis_url_variable(command: Command) -> str | None:
    """Return REDIS_URL if it is set: most applications that use a variable use this one."""
    return command.environment.get("REDIS_URL") or None


def queue_feeder(form: str, settings: Mapping[str, str]) -> Section | None:
    """Return a feeder of clones of the sample, whose messages are of *form*; None without a sample."""
    if "sample" not in settings:
        return None
    _check_queue(settings, "sample")
    names = ("url", "queue", "sample")
    return {"kind": "queue", "form": form, **{name: settings[name] for name in names}}


def queue_counted(
    counts: str,
    costs: str,
    *left: Mapping[str, str],
    counts_too: str = "",
    in_keys: Callable[[str], str] = str,
) -> Counted:
    """Return the probe that counts messages that leave the queue.

    If tuner feeds the queue, the feeder counts. Otherwise the probe reads the messages *left* (terms of the
    redis probe, with ``{queue}`` for its name): the user filled it, and adds nothing while a layout runs.
    *in_keys* returns the name of the queue as it is in keys of Redis.
    """

    def section(_command: Command, settings: Mapping[str, str]) -> Section:
        if "sample" in settings:
            return {"kind": "queue"}
        _check_queue(settings, "probe")
        queue = in_keys(settings["queue"])
        terms = [{name: key.format(queue=queue) for name, key in term.items()} for term in left]
        return {"kind": "redis", "url": settings["url"], "count": terms, "falls": "yes"}

    return Counted("queue", counts, costs, section, counts_too=counts_too)


def _check_queue(settings: Mapping[str, str], key: str) -> None:
    if "queue" not in settings:
        raise Unclear(
            key, "tuner feeds and counts one queue, but the command names none; set queue to its name"
        )


def unfed(form: str) -> str:
    """Return the instruction for users whose queue tuner does not feed."""
    return (
        f"{form} works on the messages in its queue. Record a sample (tuner sample -o sample.json) and name"
        " it (--set sample=sample.json), or put enough messages for the whole study into the queue"
    )
