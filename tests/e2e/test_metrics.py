"""Metrics of studies that really run: asked for over HTTP, kept in a file, scraped by Prometheus."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ..ports import free_port
from ..prometheus_server import PrometheusServer, needed, running_prometheus
from .http_worker import SOURCE
from .sleeping_worker import sleeping_worker
from .typed import Typed

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0
ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "tuner.json").read_text("utf-8"))
STUDY = (
    "study: {strategy: all, layouts: [%s], window: %s, warmup: %s, repeats: %d, warm_cache: no,"
    " foreign_limit: 1000, memory_pressure_limit: 1}\n"
)


def sleeper(folder: Path, *, window: str = "2s", layouts: str = "1x1, 2x2") -> None:
    (folder / "worker.py").write_text(sleeping_worker("0.01"))
    (folder / "s.yaml").write_text(
        f"service: {{kind: script, name: sleeper, command: [{sys.executable}, {folder / 'worker.py'}]}}\n"
        + STUDY % (layouts, window, "1s", 1)
    )


def web_service(folder: Path) -> None:
    """Fed by the load generator: latency and requests are known."""
    port = free_port()
    (folder / "worker.py").write_text(SOURCE)
    (folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: web\n  command: [{sys.executable}, worker.py, '{port}']\n"
        f"  directory: .\n  probe: {{kind: generator}}\n"
        f"  feeder: {{kind: http, url: 'http://127.0.0.1:{port}/', clients: 4}}\n"
        + STUDY
        % ("1x2, 1x4", "2s", "2s", 100)
    )


def url_of(process: subprocess.Popen[str]) -> str:
    """Where it says that its metrics are."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.match(r"Metrics at (http://\S+)$", line):
            return found[1]
    pytest.fail("it does not say where its metrics are")


def test_a_study_can_be_watched_over_http_and_the_port_is_free_afterwards(tuner) -> None:
    sleeper(tuner.folder, window="3s")

    with tuner.started("grid", "s.yaml", "--metrics", "127.0.0.1:0") as process:
        url = url_of(process)
        text = ""
        deadline_s = time.monotonic() + PATIENCE_S
        while not re.search(r'^tuner_phase\{.*phase="window".*\} 1\.0$', text, re.MULTILINE):
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = answer.read().decode()
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        request = urllib.request.Request(
            url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert answer.read().endswith(b"# EOF\n")
        assert process.wait(PATIENCE_S) == 0

    assert 'service="sleeper"' in text
    assert 'study="sleeper.tuner.db"' in text
    host, port = re.match(r"http://([\d.]+):(\d+)/", url).groups()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(host, int(port)).connect()


def test_a_port_that_is_taken_is_reported_before_anything_is_begun(typed: Typed) -> None:
    sleeper(typed.folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = typed("grid", "s.yaml", "--metrics", f"127.0.0.1:{port}")

    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: --metrics: port {port} of 127.0.0.1 is taken\n")
    assert not (typed.folder / "sleeper.tuner.db").exists()


def test_others_are_not_shown_a_study_without_a_word(typed: Typed) -> None:
    sleeper(typed.folder)

    done = typed("grid", "s.yaml", "--metrics", "0.0.0.0:9188")

    assert (done.returncode, "--metrics-open" in done.stderr) == (2, True)


def test_a_simulated_study_has_no_metrics(typed: Typed) -> None:
    profile = ROOT / "configs" / "profiles" / "socorro-2014.yaml"

    done = typed("grid", "--simulate", profile, "--metrics", "9188")

    assert (done.returncode, "--simulate" in done.stderr) == (2, True)


def test_the_file_of_a_study_that_is_over_has_its_result(typed: Typed) -> None:
    sleeper(typed.folder)

    done = typed("grid", "s.yaml", "--metrics-file", "tuner.prom")

    assert done.returncode == 0, done.stderr
    text = (typed.folder / "tuner.prom").read_text()
    assert re.search(r'^tuner_phase{.*phase="ended",.*} 1\.0$', text, re.MULTILINE)
    assert re.search(r'^tuner_windows_total{.*layout="2x2",result="valid",.*} 1\.0$', text, re.MULTILINE)
    assert re.search(r'^tuner_estimate_items_per_second{.*layout="2x2",', text, re.MULTILINE)
    resumed = typed("grid", "--resume", "sleeper.tuner.db", "--metrics-file", "tuner.prom")
    assert resumed.returncode == 0, resumed.stderr
    again = (typed.folder / "tuner.prom").read_text()
    assert re.search(r'^tuner_windows_total{.*layout="2x2",result="valid",.*} 1\.0$', again, re.MULTILINE)


def test_promtool_finds_nothing_wrong_with_the_metrics(typed: Typed) -> None:
    promtool = needed("promtool")
    sleeper(typed.folder, layouts="1x1")
    typed("grid", "s.yaml", "--metrics-file", "tuner.prom")

    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=(typed.folder / "tuner.prom").read_text(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_promtool_finds_nothing_wrong_with_the_job_and_the_rules() -> None:
    checked = subprocess.run(
        [needed("promtool"), "check", "config", ROOT / "deploy" / "prometheus" / "tuner.yml"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def queries() -> list[str]:
    """What the dashboard asks Prometheus for, variables filled in as Grafana does."""
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    asked += [one["expr"] for one in DASHBOARD["annotations"]["list"] if "expr" in one]
    variables = [one["definition"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    asked += [re.fullmatch(r"label_values\((.+), \w+\)", text)[1] for text in variables]
    filled = {
        "$service": "web", "$study": "web.tuner.db", "$layout": ".*",
        "$__rate_interval": "10s", "$__interval": "1m",
    }  # fmt: skip
    for name, value in filled.items():
        asked = [text.replace(name, value) for text in asked]
    return asked


#: what there is only for services that have it
ONLY_SOMETIMES = {"tuner_warnings_total", "tuner_void_windows_total"}


@pytest.mark.timeout(900)  # an estimate takes some launches, and each query may wait for another scrape
def test_prometheus_has_an_answer_to_every_query_of_the_dashboard(tuner) -> None:
    web_service(tuner.folder)

    with tuner.started("grid", "s.yaml", "--metrics", "127.0.0.1:0") as process:
        url = url_of(process)
        with running_prometheus(url.removeprefix("http://").removesuffix("/metrics")) as prometheus:
            prometheus.waited_for('tuner_estimate_low_items_per_second{layout="1x4"}')
            for query in queries():
                if any(name in query for name in ONLY_SOMETIMES):
                    prometheus.query(query)  # is one that Prometheus understands
                else:
                    prometheus.waited_for(query)
            check_labels(prometheus)


def check_labels(prometheus: PrometheusServer) -> None:
    (study,) = prometheus.query("tuner_study_info")
    assert study["metric"]["service"] == "web"
    assert {one["metric"]["layout"] for one in prometheus.query("tuner_windows_total")} == {"1x2", "1x4"}
    (target,) = prometheus.api("targets", state="active")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert prometheus.api("metadata", metric="tuner_items")["tuner_items"][0]["type"] == "counter"
