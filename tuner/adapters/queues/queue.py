"""Protocol of a message queue that tuner feeds, implemented for Redis and for RabbitMQ."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.adapters.queues.forms.message import Clone, Cut, Left, Message


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages of a launch at one moment."""

    fed: int  #: messages pushed since the launch began
    left: Left
    at_s: float | None = None  #: monotonic time of the counts; None: some time during the request

    @property
    def done(self) -> int:
        """Number of processed messages: finished or, if the broker forgets delivered messages, started."""
        return self.fed - self.left.ready - self.left.in_hand


@dataclass(frozen=True, slots=True)
class Claim:
    """Identity of the study that feeds a queue."""

    study_id: str  #: stays the same when the study is resumed
    study: str  #: name of its file, as printed
    host: str


def claim_of(study_id: str, file: str) -> Claim:
    """Return the claim that the study in *file*, on this host, stores in the broker."""
    return Claim(study_id, str(Path(file).absolute()), platform.node())


def without_password(url: str) -> str:
    """Return *url* without its user and password."""
    return re.sub(r"(?<=://)[^/]*@", "", url)


#: remedies by class of the client's error (Redis, then RabbitMQ)
_REFUSED = {
    "AuthenticationError": "Check the user and the password in the address.",
    "AuthenticationWrongNumberOfArgsError": "Name no user in the address: this Redis has passwords only.",
    "NoPermissionError": "Allow this user the command and the keys (ACL SETUSER), or name another user.",
    "ClusterDownError": "Repair the cluster (redis-cli cluster info), then try again.",
    "MovedError": "Name the node of the cluster that holds these keys.",
    "ReadOnlyError": "Name the primary: this Redis is a replica.",
    "MasterDownError": "Name the primary: this Redis is a replica that has lost it.",
    "ClusterCrossSlotError": "Name a Redis that is no cluster: keys of a queue lie on several nodes of it.",
    "OutOfMemoryError": "Give this Redis more memory (maxmemory), or let fewer messages wait (depth).",
    "AccessRefused": "Check the user and the password in the address, and the permissions of this user.",
    "NotAllowed": "Check the virtual host in the address, and the permissions of this user there.",
}


#: remedies by text, for errors without a class of their own
_SAID = {
    "MISCONF": "Let this Redis save again (its log has the reason), or stop-writes-on-bgsave-error no.",
    "DB index is out of range": "Check the number of the database in the address: this Redis has fewer.",
    "max number of clients reached": "Close connections to this Redis, or raise its maxclients.",
}


def hint_for(error: BaseException, otherwise: str) -> str:
    """Return the remedy for the client's error that caused *error*, or *otherwise*."""
    cause = error.__cause__
    said = (hint for words, hint in _SAID.items() if words in str(cause))
    return _REFUSED.get(type(cause).__name__) or next(said, otherwise)


class MessageQueue(Protocol):
    """One queue of one broker, for messages of one form.

    All methods raise BrokerError if the broker cannot be queried.
    """

    tag: str  #: prefix of the ids of this study's messages

    @property
    def where(self) -> str:
        """Description of the queue for messages to users."""

    def sample(self, n_most: int) -> list[Message]:
        """Return waiting messages, evenly spread over the queue, without changing the queue."""

    def cut(self, message: Message) -> Cut:
        """Return the template for clones of *message*; UnclonableError if it cannot be cloned."""

    def check(self) -> None:
        """Check that the queue may be fed, and remove messages of an earlier run of the same study.

        Raises:
            ConfigError: the queue holds other messages, or another study feeds it.
        """

    def look_free(self) -> None:
        """Check that no study feeds the queue and that it is empty, without changing it.

        Raises:
            ConfigError: the queue holds messages, or a study feeds it.
        """

    def claim(self) -> None:
        """Run ``check``, store this study's claim in the broker, and reset the count to 0."""

    def reach(self) -> None:
        """Check that the broker answers; BrokerAway if it does not."""

    def push(self, clones: Sequence[Clone]) -> None:
        """Push the clones (id and parts) and add them to the count of fed messages, atomically."""

    def look(self) -> Backlog:
        """Return the messages since ``claim``; raise BrokerError if the stored claim is missing."""

    def release(self) -> int:
        """Remove this study's messages, also taken ones, and its claim; return how many other messages
        remain.
        """

    def close(self) -> None:
        """Close the connection."""
