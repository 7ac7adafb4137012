"""A port of a launch's own, and whose the workers are."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tuner.adapters.probes.polled import own_port
from tuner.bootstrap.configs import settings_of
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import wording

pytestmark = pytest.mark.pythons


def test_a_port_is_reported_to_the_service_which_may_listen_there_and_nobody_gets_it_by_chance() -> None:
    with own_port("http://127.0.0.1:{TUNER_PROBE_PORT}/metrics") as (url, result):
        port = int(result["TUNER_PROBE_PORT"])
        with socket.create_server(("127.0.0.1", port)) as server:
            socket.create_connection(("127.0.0.1", port)).close()
            server.accept()[0].close()

        assert url == f"http://127.0.0.1:{port}/metrics"


def test_an_address_without_the_field_stays_as_it_is() -> None:
    with own_port("/run/stats") as (address, result):
        assert (address, result) == ("/run/stats", {})


@pytest.mark.parametrize(("processes", "are_children"), [(1, False), (2, True)])
def test_a_master_that_works_alone_has_no_children_to_look_at(processes: int, are_children: bool) -> None:
    spec = ServiceSpec("web", ("web",), programs="one", workers="children-if-several")

    assert spec.are_workers_children(Layout(processes, 1)) == are_children


def test_two_probes_cannot_both_have_the_port_of_the_launch(tmp_path: Path) -> None:
    probe = "{kind: prometheus, url: 'http://127.0.0.1:{TUNER_PROBE_PORT}/%s', metric: a_total}"
    (tmp_path / "s.yaml").write_text(
        "service:\n  kind: script\n  name: s\n  command: [s]\n"
        f"  probe: {probe % 'a'}\n  cross_check: {probe % 'b'}\n"
    )

    with raises(ConfigError, wording("config.and-probe-has-it")):
        settings_of(tmp_path / "s.yaml", {})
