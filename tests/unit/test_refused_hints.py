"""What servers refuse is told with what to change, not with the address."""

from __future__ import annotations

import pytest
import redis
from amqp.exceptions import AccessRefused, NotAllowed
from redis.exceptions import ClusterCrossSlotError, MasterDownError

from tuner.adapters.probes.sql import hint_of
from tuner.adapters.queues.forms.message import BrokerAway, BrokerError
from tuner.adapters.queues.queue import hint_for
from tuner.adapters.queues.redis_queue import asking
from tuner.core.errors import MeasurementError
from tuner.doctor.around import trouble_of
from tuner.doctor.service import ServerSeen, server_finding

OTHERWISE = "Check the address."


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (redis.AuthenticationError("invalid username-password pair or user is disabled."), "password"),
        (redis.AuthenticationError("Authentication required."), "password"),
        (redis.exceptions.NoPermissionError("this user has no permissions to run 'llen'"), "ACL SETUSER"),
        (redis.exceptions.ClusterDownError("The cluster is down"), "redis-cli cluster info"),
        (redis.exceptions.MovedError("1 127.0.0.1:7000"), "node"),
        (ClusterCrossSlotError("Keys in request don't hash to the same slot"), "no cluster"),
        (redis.ReadOnlyError("You can't write against a read only replica."), "primary"),
        (MasterDownError("Link with MASTER is down"), "primary"),
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "maxmemory"),
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "save"),
        (redis.ResponseError("DB index is out of range"), "database"),
        (redis.ConnectionError("max number of clients reached"), "maxclients"),
        (AccessRefused("Login was refused"), "password"),
        (NotAllowed("vhost other not found"), "virtual host"),
    ],
)
def test_a_broker_that_refuses_is_reported_with_what_to_change(error: Exception, word: str) -> None:
    result = BrokerError("...")
    result.__cause__ = error

    assert word in hint_for(result, OTHERWISE)


def test_a_broker_that_is_not_there_is_reported_with_its_address() -> None:
    result = BrokerError("...")
    result.__cause__ = redis.ConnectionError("Error 111 connecting to 127.0.0.1:1. Connection refused.")

    assert hint_for(result, OTHERWISE) == OTHERWISE


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (redis.ConnectionError("Connection refused."), True),
        (redis.TimeoutError("Timeout reading from socket"), True),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), True),
        (redis.AuthenticationError("invalid username-password pair"), False),
        (redis.exceptions.NoPermissionError("no permissions"), False),
        (redis.OutOfMemoryError("command not allowed"), False),
    ],
)
def test_only_a_broker_that_cannot_be_reached_may_be_back_in_a_while(error: Exception, is_away: bool) -> None:
    with pytest.raises(BrokerError) as caught, asking("redis://127.0.0.1/0"):
        raise error

    assert isinstance(caught.value, BrokerAway) is is_away


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ('FATAL:  password authentication failed for user "me"', "password"),
        ('FATAL:  role "me" does not exist', "CREATE ROLE"),
        ('FATAL:  database "jobs" does not exist', "database"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', "pg_hba.conf"),
        ("ERROR:  permission denied for table jobs", "GRANT SELECT"),
        ("FATAL:  sorry, too many clients already", "max_connections"),
    ],
)
def test_a_postgresql_that_refuses_is_reported_with_what_to_change(words: str, hint: str) -> None:
    assert hint in hint_of(f'PostgreSQL reports: connection to server at "127.0.0.1" failed: {words}')


def test_doctor_says_what_to_change_of_a_server_that_refuses() -> None:
    def refuse() -> None:
        raise MeasurementError('PostgreSQL reports: FATAL:  password authentication failed for user "me"')

    problem, cure = trouble_of(refuse)
    found = server_finding(
        ServerSeen(
            "postgresql://h/db",
            "service.probe.url",
            problem,
            "answers",
            True,
            needed_by_tuner=True,
            cure=cure,
        )
    )

    assert found.level == "blocker"  # no hook starts a password
    assert found.cure == "Check the user and the password in the url."
