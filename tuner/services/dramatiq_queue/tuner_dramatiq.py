"""Module that declares one more queue at a user's broker; dramatiq imports it in the user's Python.

A dramatiq worker reads only declared queues, and usually actors declare them. A message names its actor, so
the application also processes messages of this queue.
"""

from __future__ import annotations

import os

from dramatiq import Broker, get_broker
from dramatiq.cli import import_object

#: dramatiq has imported it already, and has called it where it is a function
_, _named = import_object(os.environ["TUNER_DRAMATIQ_BROKER"])
_broker = _named if isinstance(_named, Broker) else get_broker()
_broker.declare_queue(os.environ["TUNER_DRAMATIQ_QUEUE"])
