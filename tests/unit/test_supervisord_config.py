"""supervisord's configuration, read back as supervisord reads it."""

from __future__ import annotations

import configparser

import pytest

from tuner.adapters.supervisord.config import open_files_needed, render_config
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError

from ..raising import raises
from ..wording import wording


def rendered(processes: int = 4, *, as_root: bool = False, **spec: object) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"))
    service = ServiceSpec("it; is %(odd)s", ("any", "% thing"), **spec)  # type: ignore[arg-type]
    parser.read_string(render_config(service, processes, minfds=99, as_root=as_root))
    return parser


def test_a_crash_is_never_hidden_by_a_restart() -> None:
    program = rendered()["program:worker"]

    assert (program["autorestart"], program["startretries"], program["startsecs"]) == ("false", "0", "0")


def test_the_service_decides_how_it_is_stopped() -> None:
    program = rendered(stop_signal="INT", stop_wait_s=1.2, stop_as_group=True)["program:worker"]

    assert (program["stopsignal"], program["stopwaitsecs"], program["stopasgroup"]) == ("INT", "2", "true")


def test_only_masters_are_signalled_but_groups_are_killed() -> None:
    program = rendered()["program:worker"]

    assert (program["stopasgroup"], program["killasgroup"]) == ("false", "true")


def test_the_socket_is_for_the_owner_alone() -> None:
    assert rendered()["unix_http_server"]["chmod"] == "0600"


def test_nothing_of_the_service_gets_into_the_configuration() -> None:
    text = render_config(
        ServiceSpec("name%d", ("com;mand",), directory="/fol'der"), 2, minfds=9, as_root=False
    )

    assert not any(word in text for word in ("name%d", "com;mand", "fol'der"))


def test_root_says_so_to_supervisord() -> None:
    assert rendered(as_root=True)["supervisord"]["user"] == "0"
    assert "user" not in rendered(as_root=False)["supervisord"]


def test_too_many_processes_for_the_open_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))

    assert open_files_needed(17) == 100
    with raises(ConfigError, wording("launch.processes-need-open-files")):
        open_files_needed(18)
