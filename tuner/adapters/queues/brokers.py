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
    """Return whether *url* is an address of RabbitMQ; all other URLs are addresses of Redis."""
    return url.startswith("amqp://")


def open_queue(url: str, form: str, queue: str, claim: Claim, timeout_s: float) -> MessageQueue:
    """Return a queue that has not connected yet; ConfigError if the broker's client is not installed."""
    kind = RabbitQueue if is_rabbitmq(url) else RedisQueue
    return kind(url, form, queue, claim, timeout_s)


def find_queue(url: str, form: str | None, queue: str | None, timeout_s: float) -> tuple[str, str]:
    """Return form and name of the only queue with waiting messages; ConfigError if there is not just one."""
    if is_rabbitmq(url):
        return rabbitmq_queue.find_queue(url, form, queue, timeout_s)
    return redis_queue.find_queue(url, form, queue, timeout_s)


def empty_queue(url: str, form: str, queue: str, timeout_s: float) -> ConfigError:
    """Return the error for an empty *queue*; in Redis it names the queues that hold messages."""
    if not is_rabbitmq(url):
        return redis_queue.empty_queue(url, form, queue, timeout_s)
    return ConfigError(
        f"the queue {queue} of {without_password(url)} is empty ({form})",
        hint="Check --form and --queue, or stop its workers until some messages wait.",
    )


def separates_taken_items(url: str, form: str) -> bool:
    """Return whether messages that a worker has taken no longer count as waiting."""
    return is_rabbitmq(url) or REDIS_FORMS[form].separates_taken_items


def client_folder(url: str) -> Path:
    """Return the folder in which the broker's client is installed."""
    if is_rabbitmq(url):
        import amqp

        return Path(amqp.__file__).parent.parent
    import redis

    return Path(redis.__file__).parent.parent
