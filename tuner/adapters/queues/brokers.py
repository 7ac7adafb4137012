"""Choice of the broker client, RabbitMQ or Redis, by the URL of the queue."""

from __future__ import annotations

from pathlib import Path

from tuner.adapters.queues import rabbitmq_queue, redis_queue
from tuner.adapters.queues.forms.redis_forms import FORMS as REDIS_FORMS
from tuner.adapters.queues.queue import Claim, MessageQueue, without_password
from tuner.adapters.queues.rabbitmq_queue import RabbitQueue
from tuner.adapters.queues.redis_queue import RedisQueue
from tuner.core.errors import ConfigError


def is_rabbitmq(url: str) -> bool:
    """Whether *url* is one of RabbitMQ; else it is one of Redis."""
    return url.startswith("amqp://")


def open_queue(url: str, form: str, queue: str, claim: Claim, timeout_s: float) -> MessageQueue:
    """A queue that has not asked anything yet; ConfigError when the broker's client is not installed."""
    kind = RabbitQueue if is_rabbitmq(url) else RedisQueue
    return kind(url, form, queue, claim, timeout_s)


def find_queue(url: str, form: str | None, queue: str | None, timeout_s: float) -> tuple[str, str]:
    """The form and the name of the one queue where messages wait; ConfigError when they cannot be told."""
    if is_rabbitmq(url):
        return rabbitmq_queue.find_queue(url, form, queue, timeout_s)
    return redis_queue.find_queue(url, form, queue, timeout_s)


def empty_queue(url: str, form: str, queue: str, timeout_s: float) -> ConfigError:
    """The error that *queue* is empty; in Redis it names the queues that hold messages."""
    if not is_rabbitmq(url):
        return redis_queue.empty_queue(url, form, queue, timeout_s)
    return ConfigError(
        f"the queue {queue} of {without_password(url)} is empty ({form})",
        hint="Check --form and --queue, or stop its workers until some messages wait.",
    )


def separates_taken_items(url: str, form: str) -> bool:
    """Whether what is worked on does not count as waiting."""
    return is_rabbitmq(url) or REDIS_FORMS[form].separates_taken_items


def client_folder(url: str) -> Path:
    """Where the broker's client is installed."""
    if is_rabbitmq(url):
        import amqp

        return Path(amqp.__file__).parent.parent
    import redis

    return Path(redis.__file__).parent.parent
