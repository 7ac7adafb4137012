"""Recording a sample of the messages that wait in a real queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import ConfigError

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of a recording."""

    form: str
    queue: str
    n_messages: int
    left_out: Mapping[str, int]  #: number of messages that cannot be cloned, by reason


def record_sample(url: str, form: str | None, queue: str | None, n_most: int, into: Path) -> Sampled:
    """Record at most *n_most* messages in the new file *into*; the queue is not changed.

    Raises:
        ConfigError: the broker does not answer, no messages wait, none can be cloned, or *into* exists.
    """
    from tuner.adapters.queues.brokers import empty_queue, find_queue, open_queue
    from tuner.adapters.queues.forms.message import BrokerError, UnclonableError, write_sample
    from tuner.adapters.queues.queue import Claim, hint_for

    form, name = find_queue(url, form, queue, _TIMEOUT_S)
    source = open_queue(url, form, name, Claim("", "", ""), _TIMEOUT_S)
    try:
        messages = source.sample(n_most)
    except BrokerError as error:
        hint = hint_for(error, "Check the address, --form and --queue.")
        raise ConfigError(str(error), hint=hint) from error
    finally:
        source.close()
    if not messages:
        raise empty_queue(url, form, name, _TIMEOUT_S)
    kept, left_out = [], Counter[str]()
    for message in messages:
        try:
            source.cut(message)
        except UnclonableError as error:
            left_out[str(error)] += 1
        else:
            kept.append(message)
    if not kept:
        why = "; ".join(f"{n} {reason}" for reason, n in left_out.items())
        raise ConfigError(f"{source.where}: no message can be cloned ({form}): {why}", hint="Check --form.")
    write_sample(into, form, kept)
    return Sampled(form, name, len(kept), left_out)
