"""What tests of services behind a queue share: a sample, studies that tuner feeds, or the user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from redis import Redis

from ..redis_server import RedisServer
from .measured import (
    ALONE,
    COUNTED,
    IN_TURNS,
    KILLED,
    LOWEST,
    TURNS_ITEM_S,
    WARMUP_S,
    WINDOW_S,
    check_counts,
    check_ideal,
    check_kills,
    check_stop,
    check_turns,
    tell,
    tuner,
    tuner_running,
    until_stopped_in_hand,
    wait_for,
    wait_until_gone,
)

N_FILLED = 60  #: items of 3 s that wait, in the test of stops: more than are begun in it


def send(folder: Path, services_venv: Path, server: RedisServer, app: str, n: int) -> None:
    """Write *app*, which has a function ``send``, and let it send *n* items."""
    (folder / "app.py").write_text(app)
    # what an application imports from item.py is written by `tuner`; here it only has to be there
    (folder / "item.py").write_text("def item(): pass\n")
    subprocess.run(
        [services_venv / "bin" / "python", "-c", f"import app\nfor _ in range({n}): app.send()"],
        cwd=folder,
        env={**os.environ, "REDIS_URL": server.url},
        check=True,
        timeout=60,
    )


def record_sample(folder: Path, services_venv: Path, server: RedisServer, app: str) -> None:
    """Ten items that *app* sent, in ``sample.json``; the queue is empty again."""
    send(folder, services_venv, server, app, 10)
    tuner(folder, services_venv, "sample", "--url", server.url, "-o", "sample.json")
    with Redis.from_url(server.url) as client:
        client.flushall()


def environment(server: RedisServer, **more: str) -> dict[str, str]:
    return {"REDIS_URL": server.url, "RQ_REDIS_URL": server.url, **more}


def counts_are_the_truth(
    folder: Path,
    services_venv: Path,
    server: RedisServer,
    app: str,
    command: str,
    layouts: str,
    *settings: str,
    warmup_s: int = WARMUP_S,
    lowest: float = LOWEST,
) -> str:
    """A study of *command*, fed by tuner, counts what was finished; returns what tuner said."""
    record_sample(folder, services_venv, server, app)
    said = tuner(
        folder,
        services_venv,
        *("grid", *COUNTED, "--window", f"{WINDOW_S}s", "--warmup", f"{warmup_s}s", "--layouts", layouts),
        *(word for setting in ("sample=sample.json", *settings) for word in ("--set", setting)),
        *("--study", "s.tuner.db", "--", *command.split()),
        environment=environment(server),
    )
    tell(said)
    assert "inner-threads" not in said  # what deals out tasks computes none
    check_counts(folder, folder / "s.tuner.db", layouts.split(","))
    check_ideal(folder, folder / "s.tuner.db", lambda layout: layout.total_threads, lowest=lowest)
    return said


def a_stop_loses_nothing(
    folder: Path,
    services_venv: Path,
    server: RedisServer,
    app: str,
    command: str,
    layout: str,
    left: Sequence[tuple[str, str]],
) -> None:
    """Items of 3 s are in hand when the study ends; what is finished and what is *left* is all there was.

    *left* are commands of Redis and their keys. The queue was filled beforehand; nothing feeds it.
    """
    send(folder, services_venv, server, app, N_FILLED)
    arguments = [
        *("grid", *ALONE, "--window", "7s", "--warmup", "4s", "--layouts", layout),
        *("--set", "probe=queue", "--max-attempts", "1", "--study", "s.tuner.db", "--", *command.split()),
    ]
    until_stopped_in_hand(
        folder,
        folder / "s.tuner.db",
        lambda: tuner(folder, services_venv, *arguments, environment=environment(server, ITEM_S="3")),
    )
    check_stop(folder, folder / "s.tuner.db")
    with Redis.from_url(server.url) as client:
        n_left = sum(getattr(client, name)(key) for name, key in left)
    n_finished = len((folder / "finished").read_bytes()) // 8
    tell(f"filled {N_FILLED}, finished {n_finished}, left {n_left}")
    assert n_finished + n_left == N_FILLED


def nobody_survives(
    folder: Path,
    services_venv: Path,
    server: RedisServer,
    app: str,
    command: str,
    layout: str,
    victim: str,
) -> None:
    """kill -9 of *victim* while the service works."""
    record_sample(folder, services_venv, server, app)
    arguments = [
        *("grid", *KILLED, "--layouts", layout, "--set", "sample=sample.json", "--study", "s.tuner.db"),
        *("--", *command.split()),
    ]
    check_kills(folder, services_venv, arguments, victim, environment(server), keep=(server.process.pid,))


def layouts_take_turns(
    folder: Path,
    services_venv: Path,
    server: RedisServer,
    app: str,
    command: str,
    layouts: str,
    *settings: str,
) -> None:
    """A race with layouts that stay started: each counts its own items, and no two of them work at once."""
    record_sample(folder, services_venv, server, app)
    said = tuner(
        folder,
        services_venv,
        *("grid", *IN_TURNS, "--layouts", layouts),
        *(word for setting in ("sample=sample.json", *settings) for word in ("--set", setting)),
        *("--study", "s.tuner.db", "--", *command.split()),
        environment=environment(server, ITEM_S=f"{TURNS_ITEM_S}"),
    )
    tell(said)
    assert "take turns in slices" in said
    check_turns(folder, folder / "s.tuner.db", layouts.split(","), TURNS_ITEM_S)
    with Redis.from_url(server.url) as client:
        assert [key for key in client.scan_iter("*turn*") if b"binding" not in key] == []


def killed_in_turns(
    folder: Path, services_venv: Path, server: RedisServer, app: str, command: str, layouts: str, fed: str
) -> None:
    """kill -9 of tuner while layouts take turns and *fed*, a further queue, is filled; the study goes on."""
    record_sample(folder, services_venv, server, app)
    asked = ["grid", *IN_TURNS, "--budget", "2m", "--layouts", layouts]
    asked += [*("--set", "sample=sample.json", "--study", "s.tuner.db", "--"), *command.split()]
    of_server = environment(server, ITEM_S=f"{TURNS_ITEM_S}")
    with (
        Redis.from_url(server.url) as client,
        tuner_running(folder, services_venv, asked, of_server) as process,
    ):
        wait_for(lambda: client.exists(fed) or process.poll() is not None, f"{fed} is not filled")
        assert process.poll() is None, (folder / "said").read_text()
        process.kill()
        process.wait()
        wait_until_gone(keep=(server.process.pid,))
        assert client.exists("tuner:fed:default.turn2")  # nobody was there to remove it
    tell(tuner(folder, services_venv, "grid", "--resume", "s.tuner.db", environment=of_server))
    with Redis.from_url(server.url) as client:
        assert [key for key in client.scan_iter("*turn*") if b"binding" not in key] == []
