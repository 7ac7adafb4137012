"""The port of a further launch of an HTTP server on the same host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.parts.own_sources import at_free_port, keeping_connections, port_of
from tuner.core.text.address import bound_ports, rebind


def settings(folder: Path, command: str, feeder: str = "{kind: http, url: 'http://127.0.0.1:8123/a'}"):
    path = folder / "s.yaml"
    path.write_text(
        f"service: {{kind: script, name: web, command: {command}, feeder: {feeder},"
        " probe: {kind: generator}, ready: {kind: http, url: 'http://127.0.0.1:8123/ready'}}\n"
    )
    return settings_of(path, {})


@pytest.mark.parametrize(
    "words",
    [
        ("gunicorn", "--bind", "127.0.0.1:8000", "app:app"),
        ("gunicorn", "-b127.0.0.1:8000", "app:app"),
        ("uvicorn", "app:app", "--port=8000"),
        ("granian", "--port", "8000", "app:app"),
    ],
)
def test_a_command_listens_at_another_port(words: tuple[str, ...]) -> None:
    assert bound_ports(rebind(words, 8000, 43210)) == {43210}


def test_other_numbers_of_a_command_stay() -> None:
    words = ("gunicorn", "--max-requests", "8000", "--bind", ":8000", "app:app")
    assert rebind(words, 8000, 9001) == ("gunicorn", "--max-requests", "8000", "--bind", ":9001", "app:app")


def test_command_feeder_and_ready_check_move_together(tmp_path: Path) -> None:
    before = settings(tmp_path, "[gunicorn, --bind, '127.0.0.1:8123', app:app]")
    assert port_of(before) == 8123

    after = at_free_port(before)

    port = port_of(after)
    assert port is not None
    assert port != 8123
    assert after.service.kind == "script"
    assert after.service.feeder.url == f"http://127.0.0.1:{port}/a"
    assert after.service.ready is not None
    assert after.service.ready.url == f"http://127.0.0.1:{port}/ready"
    assert port_of(before) == 8123


def test_the_commands_of_all_variants_move(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "service: {kind: gunicorn, command: 'gunicorn app:app --bind 127.0.0.1:8123',"
        " feeder: {kind: http, url: 'http://127.0.0.1:8123/a'}}\n"
        "study: {layouts: [2x2@gthread, 4x1@sync]}\n"
    )
    before = settings_of(path, {})
    assert port_of(before) == 8123

    after = at_free_port(before)

    port = port_of(after)
    assert port not in (None, 8123)
    assert after.service.kind == "script"
    assert after.service.feeder.url == f"http://127.0.0.1:{port}/a"
    for name in ("gthread", "sync"):
        changed, kept = after.service.of(name), before.service.of(name)
        assert bound_ports(changed.command) == {port}
        assert [word for word in changed.command if str(port) not in word] == [
            word for word in kept.command if "8123" not in word
        ]
        assert changed.stop == kept.stop
    assert port_of(before) == 8123


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("gunicorn app:app --bind 127.0.0.1:8123", ["--keep-alive=300"]),
        ("gunicorn app:app --bind 127.0.0.1:8123 --keep-alive 5", []),
        ("env GUNICORN_CMD_ARGS=--keep-alive=5 gunicorn app:app", ["--keep-alive=5"]),
    ],
)
def test_gunicorn_keeps_connections_that_are_idle_between_slices(
    tmp_path: Path, command: str, options: list[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        f"service: {{kind: gunicorn, command: '{command}'}}\nstudy: {{layouts: [2x2@gthread, 4x1@sync]}}\n"
    )
    before = settings_of(path, {})
    after = keeping_connections(before)

    assert after.service.kind == "script"
    for name in ("gthread", "sync"):
        words = after.service.of(name).environment["GUNICORN_CMD_ARGS"].split()
        assert [word for word in words if word.startswith("--keep-alive")] == options
        kept = before.service.of(name).environment["GUNICORN_CMD_ARGS"].split()
        assert set(kept) <= set(words)


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("uvicorn app:app --port 8123", "300"),
        ("uvicorn app:app --port 8123 --timeout-keep-alive 5", None),
        ("env UVICORN_TIMEOUT_KEEP_ALIVE=5 uvicorn app:app --port 8123", "5"),
    ],
)
def test_uvicorn_keeps_connections_that_are_idle_between_slices(
    tmp_path: Path, command: str, seconds: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UVICORN_TIMEOUT_KEEP_ALIVE", raising=False)
    path = tmp_path / "s.yaml"
    path.write_text(f"service: {{kind: uvicorn, command: '{command}'}}\nstudy: {{layouts: [2x1]}}\n")
    after = keeping_connections(settings_of(path, {}))

    assert after.service.environment.get("UVICORN_TIMEOUT_KEEP_ALIVE") == seconds


def test_a_command_that_hides_variables_gets_the_option_instead(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    command = "env -i PATH=/usr/bin:/bin gunicorn app:app --bind 127.0.0.1:8123"
    path.write_text(f"service: {{kind: gunicorn, command: '{command}'}}\nstudy: {{layouts: [2x1]}}\n")
    before = settings_of(path, {})
    after = keeping_connections(before)

    assert before.service.kind == after.service.kind == "script"
    assert after.service.command == (*before.service.command, "--keep-alive=300")


@pytest.mark.parametrize(
    ("command", "added"),
    [
        ("hypercorn app:app --bind 127.0.0.1:8123", ("--keep-alive=300",)),
        ("hypercorn app:app --bind 127.0.0.1:8123 --keep-alive 5", ()),
        ("waitress-serve --listen=127.0.0.1:8123 app:app", ()),
    ],
)
def test_a_server_without_a_variable_gets_the_option_in_its_command(
    tmp_path: Path, command: str, added: tuple[str, ...]
) -> None:
    path = tmp_path / "s.yaml"
    kind = "waitress" if "waitress" in command else "hypercorn"
    path.write_text(f"service: {{kind: {kind}, command: '{command}'}}\nstudy: {{layouts: [2x1]}}\n")
    before = settings_of(path, {})
    after = keeping_connections(before)

    assert before.service.kind == after.service.kind == "script"
    assert after.service.command == (*before.service.command, *added)
    assert after.service.environment == before.service.environment


def test_variants_with_different_ports_have_no_single_port(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "service: {kind: script, name: web, feeder: {kind: http, url: 'http://127.0.0.1:8123/a'},"
        " probe: {kind: generator}, command: [gunicorn, --bind, '127.0.0.1:8123', app:app],"
        " variants: {one: {}, other: {command: [uvicorn, --port, '8124', app:app]}}}\n"
    )
    assert port_of(settings_of(path, {})) is None


def test_a_port_that_the_command_does_not_name_is_not_known(tmp_path: Path) -> None:
    before = settings(tmp_path, "[python3, server.py]")
    assert port_of(before) is None
    with pytest.raises(ValueError, match="no port"):
        at_free_port(before)
