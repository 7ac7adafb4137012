"""The queue that a study would feed, looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.core.doctor.command import QueueSeen
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def queue_seen(settings: Settings) -> Iterator[QueueSeen]:
    """Whether it could be fed now; nothing where its server does not answer, which is told by itself."""
    from tuner.adapters.queues.brokers import open_queue
    from tuner.adapters.queues.queue import BrokerError, Claim

    service = settings.service
    if service.kind != "script" or service.feeder.kind != "queue":
        return
    fed = service.feeder
    queue = open_queue(fed.url, fed.form, fed.queue, Claim("", "", ""), fed.timeout)
    try:
        queue.look_free()
    except BrokerError:
        return
    except ConfigError as error:
        yield QueueSeen(queue.where, error.problem, error.hint or "")
    else:
        yield QueueSeen(queue.where, "", "")
    finally:
        queue.close()
