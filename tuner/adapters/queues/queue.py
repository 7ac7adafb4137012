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
    """How a launch stands, all seen in one moment."""

    fed: int  #: messages pushed since the launch began
    left: Left
    at_s: float | None = None  #: that moment, monotonic; None: some time while it was asked for

    @property
    def done(self) -> int:
        """Messages that went through: finished or, where the broker forgets what it hands out, started."""
        return self.fed - self.left.ready - self.left.in_hand


@dataclass(frozen=True, slots=True)
class Claim:
    """Who feeds a queue."""

    study_id: str  #: the same when the study is resumed
    study: str  #: its file, for people
    host: str


def claim_of(study_id: str, file: str) -> Claim:
    """Return the mark that the study in *file*, on this host, leaves in a broker at its queue."""
    return Claim(study_id, str(Path(file).absolute()), platform.node())


def without_password(url: str) -> str:
    """*url* without its user and password."""
    return re.sub(r"(?<=://)[^/]*@", "", url)


#: by the error of a client: of Redis, of RabbitMQ
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


#: by words of an error that has no class of its own
_SAID = {
    "MISCONF": "Let this Redis save again (its log has the reason), or stop-writes-on-bgsave-error no.",
    "DB index is out of range": "Check the number of the database in the address: this Redis has fewer.",
    "max number of clients reached": "Close connections to this Redis, or raise its maxclients.",
}


def hint_for(error: BaseException, otherwise: str) -> str:
    """Return what to do about a client's error that *error* came from, or *otherwise*."""
    cause = error.__cause__
    said = (hint for words, hint in _SAID.items() if words in str(cause))
    return _REFUSED.get(type(cause).__name__) or next(said, otherwise)


class MessageQueue(Protocol):
    """One queue of one broker, which messages of one form go through.

    Everything raises BrokerError when the broker cannot be asked.
    """

    tag: str  #: what the ids of this study's messages begin with

    @property
    def where(self) -> str:
        """The queue, for people."""

    def sample(self, n_most: int) -> list[Message]:
        """Messages that wait, evenly spread over the queue; nothing is removed or changed."""

    def cut(self, message: Message) -> Cut:
        """What clones of *message* for this queue are made of; UnclonableError when there can be none."""

    def check(self) -> None:
        """See that the queue may be fed, and remove what an earlier run of the same study left in it.

        Raises:
            ConfigError: it holds messages of others, or another study feeds it.
        """

    def look_free(self) -> None:
        """See that nobody feeds the queue and that it is empty; nothing is removed or changed.

        Raises:
            ConfigError: it holds messages, or a study feeds it.
        """

    def claim(self) -> None:
        """``check``, and leave word that this study feeds the queue; counting begins at 0."""

    def reach(self) -> None:
        """See that the broker answers; BrokerAway when it does not."""

    def push(self, clones: Sequence[Clone]) -> None:
        """Put these (id and parts) into the queue and count them as fed: all at once or none."""

    def look(self) -> Backlog:
        """How it stands since ``claim``; BrokerError when the word that was left is gone."""

    def release(self) -> int:
        """Remove this study's messages, in hand ones too, and its word; gives how many others are left."""

    def close(self) -> None:
        """Let go of the connection."""
