"""tuner serve, for real: the command, its server, a browser, a study under way."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..chromium import running_chromium
from ..wording import wording
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0
STUDIES = Path(__file__).parents[2] / "bench" / "studies"
NAME = "gunicorn-2-cores-busy.tuner.db"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return Path(shutil.copy(STUDIES / NAME, tmp_path / NAME))


@contextmanager
def served(tuner, *arguments: str | Path) -> Iterator[str]:
    """The address that is printed."""
    with tuner.started("serve", "--port", "0", *arguments) as process:
        assert process.stderr is not None
        found = re.match(r"Serving at (\S+) ", process.stderr.readline())
        assert found, process.stderr.read()
        yield found[1]


def test_a_server_that_ignores_the_hangup_continues(tuner, study: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a child inherits it
    try:
        with tuner.started("serve", "--port", "0", study) as process:
            assert process.stderr is not None
            url = process.stderr.readline().split()[2]
            process.send_signal(signal.SIGHUP)
            assert get(url, f"/api/study/{NAME}").status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_studies_of_one_name_are_all_listed(tuner, study: Path) -> None:
    files = [tuner.folder / folder / "x" / NAME for folder in ("a", "b", "c")]
    for file in files:
        file.parent.mkdir(parents=True)
        shutil.copy(study, file)
    with served(tuner, *files) as url:
        listed = json.loads(get(url, "/api/studies").text)

    assert {one["name"] for one in listed["studies"]} == {NAME, f"x/{NAME}", f"c/x/{NAME}"}


def get(url: str, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=PATIENCE_S)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.text = answer.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_a_study_is_shown_as_its_report_and_as_json(tuner, typed: Typed, study: Path) -> None:
    before = study.stat()
    with served(tuner, study) as url:
        moved = get(url, "/")
        page = get(url, moved.headers["Location"])
        facts = json.loads(get(url, f"/api/study/{NAME}").text)
        hostile = [
            get(url, path).status
            for path in (
                f"/study/../{NAME}",
                "/study/..%2f..%2fetc%2fpasswd",
                "/etc/passwd",
                f"/{NAME}",
                "/%00",
            )
        ]
        stranger = get(url, "/", Host="evil.example")

    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "gunicorn" in page.text
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    ranked = json.loads(typed("rank", study, "--json").stdout)
    now = facts.pop("now")
    assert facts == ranked
    assert now["is_measured"] is False
    assert hostile == [404] * 5
    assert stranger.status == 421
    assert sorted(os.listdir(study.parent)) == [NAME]
    assert study.stat() == before or study.stat().st_mtime_ns == before.st_mtime_ns


def test_others_need_the_token_that_is_printed(tuner, study: Path) -> None:
    with served(tuner, study, "--host", "0.0.0.0") as url:
        port, token = re.fullmatch(r"http://[^/]+:(\d+)/\?token=(\S+)", url).groups()
        here = f"http://127.0.0.1:{port}/"
        assert get(here, f"/study/{NAME}").status == 401
        assert get(here, f"/study/{NAME}?token=wrong").status == 401
        entered = get(here, f"/study/{NAME}?token={token}")
        cookie = entered.headers["Set-Cookie"].split(";")[0]
        assert get(here, entered.headers["Location"], Cookie=cookie).status == 200
        assert get(here, "/api/studies", Authorization=f"Bearer {token}").status == 200


def test_a_folder_shows_what_is_in_it_and_what_comes_later(tuner, study: Path) -> None:
    folder = tuner.folder / "studies"
    folder.mkdir()
    with served(tuner, folder) as url:
        assert json.loads(get(url, "/api/studies").text) == {"schema_version": 1, "studies": []}
        shutil.copy(study, folder / "first.tuner.db")
        (folder / "torn.tuner.db").write_text("no study")
        listed = json.loads(get(url, "/api/studies").text)["studies"]
        torn = get(url, "/study/torn.tuner.db")

    assert [(one["name"], "problem" in one) for one in listed] == [
        ("first.tuner.db", False),
        ("torn.tuner.db", True),
    ]
    assert (torn.status, wording("study-file.no-study-file-at-all") in torn.text) == (503, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_though_somebody_is_connected(tuner, study: Path, number: int) -> None:
    with tuner.started("serve", study, "--port", "0") as process:
        assert process.stderr is not None
        port = int(re.search(r":(\d+)/", process.stderr.readline())[1])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == ""


def test_what_cannot_be_served_is_reported_in_a_line(typed: Typed, study: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = typed("serve", study, "--port", port)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        f"Error: --port: port {port} of 127.0.0.1 is taken",
    )
    for arguments in (["missing.tuner.db"], [study, "--host", "192.0.2.7"], [study, "--host", "a b"]):
        done = typed("serve", "--port", "0", *arguments)
        assert (done.returncode, done.stderr.startswith("Error: ")) == (2, True)
        assert ("--host: " in done.stderr) is ("192.0.2.7" in arguments)
        assert len(done.stderr.splitlines()) <= 2


def test_the_page_in_a_browser_follows_a_study_that_runs_and_keeps_its_reader_s_place(
    tuner, typed: Typed
) -> None:
    worker = tuner.folder / "worker.py"
    worker.write_text(sleeping_worker("0.01"))
    (tuner.folder / "s.yaml").write_text(
        f"service: {{kind: script, name: sleeper, command: [{sys.executable}, {worker}]}}\n"
        "study: {strategy: all, layouts: [1x1, 2x2], window: 2s, warmup: 1s, repeats: 500, warm_cache: no,"
        " foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )
    file = tuner.folder / "sleeper.tuner.db"
    with tuner.started("grid", "s.yaml"):
        deadline_s = time.monotonic() + PATIENCE_S
        while n_windows(typed, file) < 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        with served(tuner, file) as url, running_chromium() as browser:
            browser.window(900)
            browser.open(url)
            browser.run("document.querySelector('main table[id] th button').click(), 0")
            order = "document.querySelector('table[id] th[aria-sort]:not([aria-sort=none])')"
            how = f"{order}.closest('table').id + {order}.cellIndex + {order}.ariaSort"
            wanted = browser.run(how)
            held = "document.activeElement.tagName + document.activeElement.textContent"
            browser.run(f"{order}.querySelector('button').focus(), 0")
            focused = browser.run(held)
            browser.run("scrollTo(0, 300), 0")
            browser.run("window.before = document.querySelector('main'), 0")
            while browser.run("document.querySelector('main') === window.before"):
                assert time.monotonic() < deadline_s + PATIENCE_S
                time.sleep(0.2)
            assert browser.run("scrollY") == 300
            assert browser.run("document.querySelector('#now dd').textContent") in ("1x1", "2x2")
            assert json.loads(get(url, f"/study/{file.name}/now").text)["live"]["layout"] in ("1x1", "2x2")
            assert browser.run(how) == wanted
            assert browser.run(held) == focused
            assert browser.complaints == []
            hosts = {request.split("/")[2] for request in browser.requests if "://" in request}
            assert hosts == {url.split("/")[2]}


def n_windows(typed: Typed, file: Path) -> int:
    done = typed("rank", file, "--json")
    return sum(row["n_windows"] for row in json.loads(done.stdout)["layouts"]) if done.stdout else 0
