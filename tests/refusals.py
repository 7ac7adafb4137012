"""What a queue says that was asked something by a test, and refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

import pytest

from tuner.adapters.queues.forms.message import BrokerError
from tuner.adapters.queues.queue import MessageQueue
from tuner.core.errors import TunerError

Queue = TypeVar("Queue", bound=MessageQueue)


def error_of(queue: Queue, ask: Callable[[Queue], object]) -> str:
    """The one line of the error that asking *queue* ends in; it is closed afterwards."""
    with closing(queue), pytest.raises((BrokerError, TunerError)) as caught:
        ask(queue)
    return is_one_line(str(caught.value))


def is_one_line(said: str) -> str:
    """*said*, which is short, has nothing that a terminal would obey, and no password."""
    assert said.isprintable()
    assert len(said) < 600
    assert "secret" not in said
    return said
