"""How a resident launch of each service is made idle, and what a config may say of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.proc.cgroup import own_freezer
from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualService
from tuner.app.layouts_in_turns import can_slice
from tuner.app.plan_builder import plan_record
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.parts.gates import gate_of, takes_turns
from tuner.config.load import Given, canonical_json, settings_of_study
from tuner.config.settings import Settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.errors import ConfigError
from tuner.services import crash_processor, running
from tuner.services.catalogue import OWN, known_services

HTTP = {"granian", "gunicorn", "hypercorn", "uvicorn", "uwsgi", "waitress"}
QUEUES = {"arq", "celery", "dramatiq", "huey", "rq", "saq", "taskiq"}
SCRIPT = "kind: script, name: s, command: work"


def configured(folder: Path, service: str) -> Settings:
    file = folder / "study.yaml"
    file.write_text(f"service: {{{service}}}\n")
    return settings_of(file, {})


def typed(*words: str, **more: str) -> Settings:
    options = {("service", "command"): Given("--", " ".join(words))}
    options |= {("service", name): Given(f"--set {name}", value) for name, value in more.items()}
    return settings_of(None, options)


@pytest.mark.parametrize("name", OWN)
def test_every_record_names_its_gate_with_a_reason_in_a_sentence(name: str) -> None:
    record = known_services()[name]

    assert record.gate == ("feed" if name in HTTP | QUEUES else "none")
    assert re.fullmatch(r"[A-Zt][^.]+\.", record.gate_reason)


def test_http_services_are_gated_by_their_feeder() -> None:
    gate, reason = gate_of(typed("gunicorn", "app:app"))

    assert gate == "feed"
    assert reason == known_services()["gunicorn"].gate_reason


@pytest.mark.parametrize("rate", ["200", "70%", "p95=200ms"])
def test_layouts_take_no_turns_at_a_rate_because_queues_outlast_slices(tmp_path: Path, rate: str) -> None:
    feeder = f"feeder: {{kind: http, url: 'http://127.0.0.1:1/', rate: {rate}}}"
    fed = f"{SCRIPT}, {feeder}, probe: {{kind: generator}}"

    for service in (fed, f"{fed}, gate: feed"):
        gate, reason = gate_of(configured(tmp_path, service))
        assert gate == "none"
        assert "fixed rate" in reason


@pytest.mark.parametrize(
    ("service", "may"),
    [
        (f"{SCRIPT}, feeder: {{kind: http, url: 'http://127.0.0.1:1/'}}, probe: {{kind: generator}}", False),
        (f"{SCRIPT}, gate: freeze", True),
        (SCRIPT, False),
        ("kind: crash-processor", True),
    ],
)
def test_slices_are_recommended_only_where_layouts_can_take_turns(
    tmp_path: Path, service: str, may: bool
) -> None:
    record = plan_record(configured(tmp_path, service))

    assert can_slice(record, tmp_path / "s.db") is may
    assert not can_slice(replace(record, n_resident=4), tmp_path / "s.db")
    assert not can_slice(replace(record, strategy="check"), tmp_path / "s.db")
    assert not can_slice(replace(record, provenance=Provenance(simulated="web")), tmp_path / "s.db")


def test_slices_are_recommended_for_a_server_whose_port_stands_in_its_command(tmp_path: Path) -> None:
    settings = typed("gunicorn", "app:app", "--bind", "127.0.0.1:8000")

    assert can_slice(plan_record(settings), tmp_path / "s.db")


def test_slices_are_not_recommended_on_a_host_without_the_environment_file(tmp_path: Path) -> None:
    variables = tmp_path / "variables"
    variables.write_text("A=1\n")
    sample = tmp_path / "sample.json"
    sample.write_text("{}")
    worker = ("celery", "-A", "app", "-b", "redis://127.0.0.1/0", "worker", "--pool=threads")
    record = plan_record(typed(*worker, sample=str(sample), environment_file=str(variables)))
    assert can_slice(record, tmp_path / "s.db")

    variables.unlink()

    assert not can_slice(record, tmp_path / "s.db")


def test_slices_are_not_recommended_on_a_host_that_lacks_the_record_of_the_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = plan_record(typed("gunicorn", "app:app", "--bind", "127.0.0.1:8000"))
    monkeypatch.delitem(known_services(), "gunicorn")

    assert not can_slice(record, tmp_path / "s.db")


def test_slices_are_not_recommended_to_who_has_turned_them_off(tmp_path: Path) -> None:
    options = {("study", "slices"): Given("--slices", "off")}

    assert not can_slice(plan_record(settings_of(None, options)), tmp_path / "s.db")


@pytest.mark.parametrize("limit", ["load: 50", "memory: 90%", "command: 'true'"])
def test_layouts_take_no_turns_under_a_limit_that_counts_all_of_them(tmp_path: Path, limit: str) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(f"service: {{kind: crash-processor}}\nbrake: {{{limit}}}\n")
    n_resident, reason = takes_turns(settings_of(file, {}), is_simulated=False)

    assert n_resident == 1
    assert "safety limit" in reason


def test_a_limit_on_failed_items_allows_turns(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("service: {kind: crash-processor}\nbrake: {errors: 10%}\n")
    assert takes_turns(settings_of(file, {}), is_simulated=False)[0] > 1


def test_a_queue_that_tuner_does_not_feed_has_no_gate() -> None:
    assert gate_of(typed("rq", "worker-pool", "default"))[0] == "none"


def test_the_built_in_worker_is_frozen(tmp_path: Path) -> None:
    assert gate_of(configured(tmp_path, "kind: crash-processor")) == ("freeze", crash_processor.GATE_REASON)


def test_a_script_has_a_gate_only_if_its_config_says_so_or_tuner_sends_its_requests(tmp_path: Path) -> None:
    fed = f"{SCRIPT}, feeder: {{kind: http, url: 'http://127.0.0.1:1/'}}, probe: {{kind: generator}}"

    assert gate_of(configured(tmp_path, SCRIPT)) == ("none", running.GATE_REASON)
    assert gate_of(configured(tmp_path, f"{SCRIPT}, gate: freeze"))[0] == "freeze"
    assert gate_of(configured(tmp_path, fed))[0] == "feed"
    assert gate_of(configured(tmp_path, f"{fed}, gate: none"))[0] == "none"


def test_a_user_may_overrule_the_record_of_a_known_service() -> None:
    assert gate_of(typed("gunicorn", "app:app", gate="none"))[0] == "none"


@pytest.mark.parametrize(
    "service", [f"{SCRIPT}, gate: feed", f"{SCRIPT}, gate: frost", "kind: crash-processor, gate: feed"]
)
def test_a_gate_that_cannot_be_is_refused_with_its_place(tmp_path: Path, service: str) -> None:
    with pytest.raises(ConfigError, match=r"service\.gate"):
        configured(tmp_path, service)


def test_a_study_keeps_the_gate_if_it_was_set_and_nothing_else(tmp_path: Path) -> None:
    without, frozen = configured(tmp_path, SCRIPT), configured(tmp_path, f"{SCRIPT}, gate: freeze")

    assert "gate" not in json.loads(canonical_json(without))["service"]
    assert json.loads(canonical_json(frozen))["service"]["gate"] == "freeze"
    assert settings_of_study(canonical_json(frozen), "s.db") == frozen
    assert settings_of_study(canonical_json(without), "s.db") == without


def test_the_freezer_of_version_1_is_found_where_it_may_be_written(tmp_path: Path) -> None:
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("9:cpuset:/\n6:freezer:/docker/7\n0::/\n")
    assert own_freezer(proc, cgroup) is None

    own = cgroup / "freezer" / "docker" / "7"
    own.mkdir(parents=True)
    for folder in (own, cgroup / "freezer"):
        (folder / "tasks").touch()
    assert own_freezer(proc, cgroup) == own

    (own / "tasks").unlink()
    assert own_freezer(proc, cgroup) is None


@pytest.mark.parametrize("gate", ["freeze", "feed"])
def test_on_a_simulated_host_nothing_progresses_behind_a_gate(gate: str) -> None:
    layout = Layout(2, 2)
    box = VirtualBox(VirtualService({layout: 10.0}), Noise(sample_sd=0.0))
    with box.running(layout, {}) as launch, box.counting(layout) as counting:
        shut, opened = (launch.freeze, launch.thaw) if gate == "freeze" else (box.pause, box.resume)
        began_s = box.clock.monotonic_s()
        box.clock.sleep_until(began_s + 20)
        shut()
        before, busy_s = counting.read().n_done_total, launch.busy_s
        box.clock.sleep_until(began_s + 30)
        assert (counting.read().n_done_total, launch.busy_s, launch.n_active) == (before, busy_s, 0)
        assert not launch.problems()

        opened()
        box.clock.sleep_until(began_s + 40)
        after = counting.read().n_done_total

    assert before > 100
    assert after - before == pytest.approx(100, rel=0.2)
