"""The RabbitMQ that tests start: it speaks AMQP to a real client, and leaves nothing (conftest.py looks)."""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from ..rabbitmq_server import running_rabbitmq

pytestmark = [pytest.mark.integration, pytest.mark.services]

PUT_AND_COUNT = """
import sys
import time

import amqp

with amqp.Connection(f"127.0.0.1:{sys.argv[1]}") as connection, connection.channel() as channel:
    channel.queue_declare("jobs", auto_delete=False)
    for _ in range(3):
        channel.basic_publish(amqp.Message("job"), routing_key="jobs")
    while channel.queue_declare("jobs", passive=True).message_count < 3:
        time.sleep(0.05)
    print(channel.queue_declare("jobs", passive=True).message_count)
"""


def test_a_client_finds_its_jobs_in_the_queue_and_nothing_stays(services_venv: Path) -> None:
    with running_rabbitmq() as server:
        said = subprocess.run(
            [services_venv / "bin" / "python", "-c", PUT_AND_COUNT, str(server.port)],
            capture_output=True,
            text=True,
            check=True,
        )

        assert server.management_url is None

    assert said.stdout == "3\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_two_servers_run_side_by_side_one_of_them_with_its_management() -> None:
    password = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    client = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(password))
    with running_rabbitmq() as plain, running_rabbitmq(management=True) as managed:
        assert managed.management_url is not None
        password.add_password(None, managed.management_url, "guest", "guest")
        with client.open(f"{managed.management_url}/api/overview") as answer:
            overview = answer.read()

        assert plain.answers()
        assert b"rabbitmq_version" in overview
