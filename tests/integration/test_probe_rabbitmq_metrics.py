"""RabbitMQ's page for Prometheus counts acknowledged messages at once (docs/probes-of-servers.md)."""

from __future__ import annotations

import time

import amqp
import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.core.domain.layout import Layout
from tuner.ports import Counting

from ..rabbitmq_server import running_rabbitmq

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0
METRIC = "rabbitmq_global_messages_acknowledged_total"


def counted(counting: Counting, n: int) -> int:
    """What is counted once it is *n* or more."""
    ends_s = time.monotonic() + PATIENCE_S
    while (reading := counting.read()).n_done_total < n:
        assert time.monotonic() < ends_s, f"still {reading}"
        time.sleep(0.05)
    return reading.n_done_total


def test_messages_that_are_acknowledged_count_and_no_others() -> None:
    with running_rabbitmq(metrics=True) as server, amqp.Connection(f"127.0.0.1:{server.port}") as connection:
        assert server.metrics_url is not None
        channel = connection.channel()
        channel.queue_declare("jobs", auto_delete=False)
        for _ in range(60):
            channel.basic_publish(amqp.Message("job"), routing_key="jobs")
        done = Metric(METRIC, {"protocol": "amqp091"})
        probe = PrometheusProbe(
            SystemClock(),
            server.metrics_url,
            done,
            None,
            PATIENCE_S,
            lambda *result: pytest.fail(str(result)),
        )

        def take(n: int) -> list[int]:
            found: list[int] = []
            while len(found) < n:
                delivery = channel.basic_get("jobs")
                if delivery is not None:
                    found.append(delivery.delivery_tag)
            return found

        with probe.counting(Layout(1, 1)) as counting:
            for tag in take(1):
                channel.basic_ack(tag)
            channel.queue_declare("jobs", passive=True)  # answered after what was sent before
            first = counting.read()
            while (started := counting.read()).at_s <= first.at_s:
                time.sleep(0.05)
            in_hand, refused, done_by_now = take(10), take(5), take(30)
            for tag in refused:
                channel.basic_reject(tag, requeue=False)
            for tag in done_by_now:
                channel.basic_ack(tag)
            channel.queue_declare("jobs", passive=True)

            assert counted(counting, started.n_done_total + 30) == started.n_done_total + 30
            assert len(in_hand) == 10
