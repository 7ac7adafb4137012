"""tuner grid with a web service of a user's own, fed by the load generator and counted by it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tuner.core.domain.load import parse_client_search

from ..ports import free_port
from ..wording import wording
from .http_worker import SOURCE
from .typed import Typed

pytestmark = pytest.mark.integration


def config(folder: Path, feeder: str) -> None:
    port = free_port()
    (folder / "worker.py").write_text(SOURCE)
    (folder / "s.yaml").write_text(
        "service:\n  kind: script\n  name: web\n"
        f"  command: [{sys.executable}, worker.py, '{port}']\n  directory: .\n"
        f"  probe: {{kind: generator}}\n  feeder: {{kind: http, url: 'http://127.0.0.1:{port}/'{feeder}}}\n"
        "study: {strategy: all, layouts: [1x2, 1x4], window: 2s, warmup: 2s, repeats: 1, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )


def readings(study: Path) -> list[tuple[str, float, int]]:
    """Layout, monotonic seconds and items done, at the edges of every window."""
    query = (
        "SELECT processes || 'x' || threads, reading.at_s, reading.n_done_total FROM reading"
        " JOIN window ON window.id = window_id JOIN launch ON launch.id = launch_id"
    )
    with closing(sqlite3.connect(study)) as connection:
        return connection.execute(query).fetchall()


def test_a_web_service_is_fed_and_counted_as_it_counts_itself(typed: Typed) -> None:
    config(typed.folder, ", clients: 4")

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    assert "requests-failed" not in done.stderr
    assert {row["layout"] for row in json.loads(done.stdout)["layouts"]} == {"1x2", "1x4"}
    seen = readings(typed.folder / "web.tuner.db")
    assert len(seen) == 4
    for layout, at_s, n_done in seen:
        finished_s = [float(line) for line in (typed.folder / f"truth-{layout}").read_text().split()]
        # finished and not counted yet: at most one on each connection; the count is read a moment after at_s
        assert n_done >= sum(one_s <= at_s for one_s in finished_s) - 4
        assert n_done <= sum(one_s <= at_s + 1.0 for one_s in finished_s)
    assert list(Path(os.environ["TMPDIR"]).glob("tuner-*")) == []


def test_a_window_keeps_how_long_its_requests_took(typed: Typed) -> None:
    config(typed.folder, ", rate: 60, arrivals: even")

    done = typed("grid", "s.yaml")

    assert done.returncode == 0, done.stderr
    columns = "n_done, n_requests, n_requests_failed, latency_p50_s, latency_p95_s, latency_p99_s, rate_per_s"
    with closing(sqlite3.connect(typed.folder / "web.tuner.db")) as connection:
        result = connection.execute(f"SELECT {columns} FROM window").fetchall()
    assert len(result) == 2
    for n_done, n_requests, n_failed, p50_s, p95_s, p99_s, rate_per_s in result:
        assert abs(n_requests - n_done) <= 30  # seen a moment apart
        assert (n_failed, rate_per_s) == (0, 60.0)
        assert 0.005 <= p50_s <= p95_s <= (p99_s or p95_s)


def test_a_p95_in_a_closed_loop_is_warned_of_and_limits_all_the_same(typed: Typed) -> None:
    config(typed.folder, ", clients: 8")

    done = typed("grid", "s.yaml", "--max-p95", "1us")

    assert done.returncode == 2
    assert wording("rank.p95-no-duration") in done.stderr

    done = typed("grid", "s.yaml", "--max-p95", "1ms")

    assert done.returncode == 0, done.stderr
    assert "latency-at-saturation" in done.stderr
    assert wording("rank.what-may-win-p") in done.stdout
    assert wording("rank.every-client-always-busy") in done.stdout


def test_a_study_looks_for_its_number_of_clients_and_every_layout_has_that(typed: Typed) -> None:
    config(typed.folder, "")

    done = typed("grid", "s.yaml")

    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(typed.folder / "web.tuner.db")) as connection:
        ((kept,),) = connection.execute("SELECT config FROM study").fetchall()
        provenance = dict(connection.execute("SELECT key, value FROM provenance").fetchall())
        spreads = [json.loads(text) for (text,) in connection.execute("SELECT spread FROM window").fetchall()]
    found = parse_client_search(
        provenance.get("clients_found"), json.loads(kept)["service"]["feeder"]["clients"]
    )
    assert found is not None
    assert found.layout == "1x4"
    assert found.tried[0].clients == 8
    assert f"{found.clients} clients" in done.stderr
    for seconds, starved_s, _, held in spreads:
        assert starved_s == 0
        assert len(held) == 1
        assert held[0] <= found.clients * seconds

    again = typed("grid", "s.yaml", "--resume", "web.tuner.db")

    assert again.returncode == 0, again.stderr


def test_at_a_share_of_capacity_each_launch_finds_its_own_rate_before_its_window(tuner) -> None:
    config(tuner.folder, ", clients: 8")

    done = tuner("grid", "s.yaml", "--rate", "50%")

    assert done.returncode == 0, done.stderr
    assert wording("rank.requests-came-share-what") in done.stdout
    columns = "n_done / window.length_s, rate_per_s, capacity_per_s, warmup_s"
    query = f"SELECT {columns} FROM window JOIN launch ON launch.id = launch_id"
    with closing(sqlite3.connect(tuner.folder / "web.tuner.db")) as connection:
        result = connection.execute(query).fetchall()
    assert len(result) == 2
    for answered_per_s, rate_per_s, capacity_per_s, warmup_s in result:
        assert rate_per_s == 0.5 * capacity_per_s
        assert answered_per_s <= 1.5 * rate_per_s  # no closed loop any more; arrivals are Poisson
        assert warmup_s >= 2 + 10 + 2


@pytest.mark.parametrize(
    ("feeder", "options", "said"),
    [
        ("", ("--rate", "fast"), "--rate: 'fast' is no rate"),
        ("", ("--rate", "100%"), "--rate: '100%': at its whole capacity a layout falls behind"),
        (", clients: 8", ("--rate", "200"), "name clients (closed loop) or a rate"),
    ],
)
def test_a_rate_that_is_none_is_refused_with_one_line(typed: Typed, feeder: str, options, said: str) -> None:
    config(typed.folder, feeder)

    done = typed("grid", "s.yaml", *options)

    assert done.returncode == 2
    assert said in done.stderr
    assert list(typed.folder.glob("*.db")) == []


def test_a_rate_for_a_service_that_tuner_sends_no_requests_to_is_refused(typed: Typed) -> None:
    (typed.folder / "s.yaml").write_text("service: {kind: script, name: web, command: [sleep, '9']}\n")

    done = typed("grid", "s.yaml", "--rate", "200")

    assert done.returncode == 2
    assert wording("config.rate-of-no-http") in done.stderr


def test_a_service_that_never_answers_fails_the_study_and_says_what_came_instead(typed: Typed) -> None:
    config(typed.folder, ", wait: 500ms")
    with (typed.folder / "worker.py").open("w") as worker:
        worker.write("import threading, os\nfor _ in range(int(os.environ['TUNER_THREADS'])):\n")
        worker.write("    threading.Thread(target=threading.Event().wait).start()\n")

    done = typed("grid", "s.yaml", "--max-attempts", "1")

    assert done.returncode == 3, done.stderr
    assert wording("feeders.did-not-answer") in done.stderr


def test_clients_that_leave_threads_idle_are_refused_before_anything_runs(typed: Typed) -> None:
    config(typed.folder, ", clients: 3")

    done = typed("grid", "s.yaml")

    assert done.returncode == 2
    assert wording("feeders.connections-leave-threads", n=3, layout="1x4") in done.stderr
    assert list(typed.folder.glob("*.db")) == []
