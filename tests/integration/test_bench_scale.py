"""The studies that `bench/scale.py` measures on: as large as asked for, and studies like any other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tuner.adapters.sqlite.store import SqliteStore
from tuner.app import study_queries
from tuner.core.domain.layout import Layout

from ..bench_modules import loaded
from ..processes import is_running

pytestmark = pytest.mark.integration
LAYOUTS = (Layout(1, 1), Layout(2, 2))


def test_a_study_is_as_large_as_requested_and_ranked_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "s.tuner.db"
    with loaded("scale_study") as bench:
        bench.scale_study.write_study(path, bench.scale_study.Size(60, 900, LAYOUTS), cores=4)
    with SqliteStore.open(path, read_only=True) as store:
        windows = store.windows()
        n_samples = sum(len(store.samples(one.launch_id, one.index, one.attempt)) for one in windows[:10])

    assert sum(not one.void for one in windows) == 60
    assert sum(bool(one.void) for one in windows) == 1
    assert len({one.launch_id for one in windows}) == 12
    assert n_samples == 10 * 15
    _, ranking = study_queries.rank_file(path)
    assert [row.layout for row in ranking.rows] == [Layout(2, 2), Layout(1, 1)]
    assert [row.n_windows for row in ranking.rows] == [30, 30]


#: a server that says its pid and where it is, and then does to whoever asks what its argument says
SERVER = """
import http.server, os, sys, time

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[2], "w") as told:
            told.write(str(os.getpid()))
        if sys.argv[1] == "hangs":
            time.sleep(600)
        if sys.argv[1] == "dies":
            os._exit(3)
        self.send_response(500 if sys.argv[1] == "fails" else 200)
        self.end_headers()

server = http.server.HTTPServer(("127.0.0.1", 0), Page)
sys.stderr = open(os.devnull, "w")
print(f"http://127.0.0.1:{server.server_port}/ is there", flush=True)
server.serve_forever()
"""


def asked(does: str, result: Path, limit_s: float) -> object:
    """What a server that *does* so costs until its first page is there."""
    with loaded("scale") as bench:
        return bench.scale.cost_of(
            [sys.executable, "-c", SERVER, does, str(result)], limit_s, bench.scale.fetch
        )


def test_a_server_that_answers_has_a_cost_and_one_that_takes_too_long_is_over(tmp_path: Path) -> None:
    answered, hangs = tmp_path / "answered", tmp_path / "hangs"

    cost = asked("answers", answered, 60.0)

    assert cost is not None
    assert asked("hangs", hangs, 2.0) is None
    assert not is_running(int(answered.read_text()))


def test_a_server_that_never_said_where_it_is_is_over_by_the_limit() -> None:
    with loaded("scale") as bench:
        silent = [sys.executable, "-c", "import time; time.sleep(600)"]

        assert bench.scale.cost_of(silent, 0.5, bench.scale.fetch) is None


@pytest.mark.parametrize(("does", "words"), [("fails", "500"), ("dies", "no page of")])
def test_a_server_without_a_page_is_reported_and_left_running_by_nobody(
    tmp_path: Path, does: str, words: str
) -> None:
    text = tmp_path / "pid"

    with pytest.raises(SystemExit, match=words):
        asked(does, text, 60.0)

    assert not is_running(int(text.read_text()))
