"""What metrics tell of a study, without a server."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tuner.adapters.metrics.exposition import MetricsFile, registry_of
from tuner.adapters.metrics.figures import Known, StudyFigures
from tuner.adapters.terminal.progress import ProgressTee
from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryStore, PlannedStop
from tuner.bootstrap.parts.metrics import parse_metrics_options
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.domain.requests import Latencies, Requests, bucket_of
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.text.prometheus_text import parse_samples
from tuner.study.run import run_study

from .heat_studies import box_with_places, heat_study, measured

A, B = Layout(1, 4), Layout(2, 2)
SERVICE = VirtualService({A: 10.0, B: 20.0})
SHORT: dict[str, Any] = {"window_s": 10.0, "warmup_s": 5.0, "n_blocks": 2}


def told(beside: Callable[[StudyFigures], list[MetricsFile]] = lambda _: []) -> StudyFigures:
    """The figures of a whole virtual study."""
    store = MemoryStore(virtual_study(SERVICE, **SHORT))
    clock = VirtualClock.resumed(store)
    strategy = strategy_of(store.study())
    figures = StudyFigures(
        store.study(),
        "s.tuner.db",
        "box-7",
        lambda: Known(strategy.estimates(), strategy.answer()),
        clock.wall_s,
    )
    virtual = VirtualBox(SERVICE, Noise(), seed=5, cores=4, clock=clock)
    progress = ProgressTee([figures, *beside(figures)])
    run_study(virtual.box(), store, progress, PlannedStop(lambda: False), strategy)
    figures.end(as_planned=True)
    return figures


def values(
    figures: StudyFigures, name: str, label: str | None = None, **where: str
) -> dict[str | None, float]:
    """Of one metric, by one of its labels, of those samples that have the labels *where*."""
    text = generate_latest(registry_of(figures)).decode()
    return {
        sample.labels[label] if label else None: sample.value
        for family in parse_text(text)
        for sample in family.samples
        if sample.name == name and where.items() <= sample.labels.items()
    }


def test_a_study_s_windows_items_and_estimates_are_reported_by_layout() -> None:
    figures = told()

    assert values(figures, "tuner_windows_total", "layout", result="valid") == {"1x4": 2.0, "2x2": 2.0}
    assert values(figures, "tuner_windows_total", "layout", result="void") == {"1x4": 0.0, "2x2": 0.0}
    assert values(figures, "tuner_window_seconds_total", "layout") == pytest.approx(
        {"1x4": 20.0, "2x2": 20.0}
    )
    items = values(figures, "tuner_items_total", "layout")
    assert items["2x2"] / items["1x4"] == pytest.approx(2, rel=0.1)
    n_launches = values(figures, "tuner_launches_total", "layout")
    assert sum(n_launches.values()) == 5  # the first one warms the page cache
    low, mean, high = (
        values(figures, f"tuner_estimate{end}_items_per_second", "layout")["2x2"]
        for end in ("_low", "", "_high")
    )
    assert low < mean < high
    assert values(figures, "tuner_leader", "layout") == {"2x2": 1.0}
    assert values(figures, "tuner_phase", "phase")["ended"] == 1
    assert values(figures, "tuner_running") == {}


def test_every_sample_names_service_box_and_study() -> None:
    text = generate_latest(registry_of(told())).decode()

    samples = [
        sample
        for family in parse_text(text)
        for sample in family.samples
        if sample.name != "tuner_build_info"
    ]
    assert {(one.labels["box"], one.labels["study"]) for one in samples} == {("box-7", "s.tuner.db")}
    assert all(sample.name.startswith("tuner_") for sample in samples)


def test_what_runs_is_reported_for_each_box_and_items_are_counted_over_all() -> None:
    store = MemoryStore(virtual_study(SERVICE, **SHORT))
    strategy = strategy_of(store.study())
    figures = StudyFigures(
        store.study(), "s.tuner.db", "here", lambda: Known(strategy.estimates(), strategy.answer())
    )
    for box, layout in (("box-1", A), ("box-2", B)):
        figures.turn_to(box)
        figures.launch_started(layout, 0, 0, None)
    for at_s in (1, 2, 3):
        for box, layout, per_s in (("box-1", A, 10), ("box-2", B, 20)):
            figures.turn_to(box)
            sample = Sample(at_s, 1000 * per_s + per_s * at_s, 0, 1.0, 1.0, 1.0, 2)
            figures.sampled(layout, float(at_s), 10.0, sample, float(per_s))

    assert values(figures, "tuner_running", "box") == {"box-1": 1.0, "box-2": 1.0}
    assert values(figures, "tuner_items_per_second", "box") == {"box-1": 10.0, "box-2": 20.0}
    assert values(figures, "tuner_items_total", "layout") == {"1x4": 30.0, "2x2": 60.0}

    figures.box_left("box-1")

    assert values(figures, "tuner_running", "box") == {"box-2": 1.0}


def test_openmetrics_can_be_read_by_its_own_parser() -> None:
    text = openmetrics.generate_latest(registry_of(told())).decode()

    families = {family.name: family for family in parse_openmetrics(text)}
    assert families["tuner_window_seconds"].unit == "seconds"
    assert families["tuner_study"].type == "info"


def test_the_prometheus_probe_reads_both_formats_alike() -> None:
    registry = registry_of(told())
    pages = [generate_latest(registry).decode(), openmetrics.generate_latest(registry).decode()]

    valid, other = (parse_samples(page, "tuner_windows_total", {"result": "valid"}) for page in pages)
    assert valid == other
    assert list(valid.values()) == [2.0, 2.0]


def test_a_void_window_is_counted_by_its_reasons_and_gives_no_throughput() -> None:
    figures = figures_of_nothing()
    void = (VoidReason("disturbed", "0.4 cores"), VoidReason("source-dry", "empty"))
    figures.launch_started(A, 9, 0, None)
    figures.window_taken(window(A, void=void), 1, None, None)

    assert values(figures, "tuner_void_windows_total", "reason") == {"disturbed": 1.0, "source-dry": 1.0}


def sample(at_s: float, n_done: int) -> Sample:
    return Sample(at_s, n_done, 0, 2.5, 1.0, 1.0, 4)


def usage(at_s: float, cpu_s: float = 0.0) -> Usage:
    return Usage(at_s, at_s, cpu_s, 0, 0, cpu_s, 0, 0, 1_000_000, 4, 24, None, None, None)


def window(
    layout: Layout, *, n_done: int = 1000, requests: Requests | None = None, void: tuple = ()
) -> Window:
    return Window(
        layout, 0, 1, 0.0, 10.0, n_done, 3, (sample(0, 0), sample(10, n_done)), (usage(0), usage(10, 15.0)),
        (Reading(0, 0, 0), Reading(10, n_done, 3)), void, requests,
    )  # fmt: skip


def figures_of_nothing() -> StudyFigures:
    study = virtual_study(SERVICE, **SHORT)
    strategy = strategy_of(study)
    return StudyFigures(study, "s.tuner.db", "box-7", lambda: Known(strategy.estimates(), strategy.answer()))


def test_what_runs_is_reported_while_it_runs() -> None:
    figures = figures_of_nothing()
    figures.launch_started(A, 2, 0, 90.0)
    figures.warming_up(A, 3.0, 40.0)
    figures.sampled(A, 1.0, 10.0, sample(1, 50), 20.0)
    figures.sampled(A, 2.0, 10.0, sample(2, 75), 22.5)

    assert values(figures, "tuner_phase", "phase")["window"] == 1
    assert values(figures, "tuner_running", "layout") == {"1x4": 1.0}
    assert values(figures, "tuner_items_per_second", "layout") == {"1x4": 22.5}
    assert values(figures, "tuner_load1", "layout") == {"1x4": 2.5}
    assert values(figures, "tuner_active_tasks", "layout") == {"1x4": 4.0}
    assert values(figures, "tuner_remaining_seconds") == {None: 90.0}
    assert values(figures, "tuner_block") == {None: 3.0}
    assert values(figures, "tuner_items_total", "layout") == {
        "1x4": 45.0
    }  # 20 of the window by then, and 25 more


def test_items_between_two_windows_of_a_launch_are_of_neither() -> None:
    figures = figures_of_nothing()
    figures.launch_started(A, 0, 0, None)
    figures.sampled(A, 8.0, 10.0, sample(8, 800), 100.0)
    figures.window_taken(window(A, n_done=1000), 1, None, None)
    figures.warming_up(A, 30.0, 100.0)  # 3000 items go by, as the source had run dry
    figures.sampled(A, 1.0, 10.0, sample(41, 4100), 100.0)

    assert values(figures, "tuner_items_total", "layout") == {"1x4": 1100.0}


def test_items_of_layouts_that_take_turns_are_counted_apart() -> None:
    study = heat_study()
    strategy = strategy_of(study)
    known = lambda: Known(strategy.estimates(), strategy.answer())  # noqa: E731
    figures = StudyFigures(study, "s.tuner.db", "box-7", known)
    store = measured(study, box_with_places(), progress=figures)
    done: Counter[Layout] = Counter()
    for window in store.windows():
        done[window.layout] += window.n_done

    for layout, n_done in done.items():
        assert figures.layouts[layout].n_items == pytest.approx(n_done, rel=0.01)


def test_a_window_of_which_no_second_was_reported_counts_with_all_its_items() -> None:
    figures = figures_of_nothing()  # as of a short window of a box of a fleet
    figures.launch_started(A, 0, 0, None)
    figures.window_taken(window(A, n_done=1000), 1, None, None)

    assert values(figures, "tuner_items_total", "layout") == {"1x4": 1000.0}


def test_a_window_tells_latency_cpu_memory_and_requests() -> None:
    figures = figures_of_nothing()
    figures.launch_started(A, 0, 0, None)
    answered = Latencies({bucket_of(5_000_000): 95, bucket_of(80_000_000): 4})
    figures.window_taken(window(A, requests=Requests(answered, n_failed=1)), 1, 8, 30.0)

    latency = values(figures, "tuner_window_latency_seconds", "percentile")
    assert latency == pytest.approx({"50": 0.005, "95": 0.005, "99": 0.08}, rel=0.002)
    assert values(figures, "tuner_cpu_seconds_total", "whose")["service"] == pytest.approx(15.0)
    assert values(figures, "tuner_window_memory_bytes", "layout") == {"1x4": 1e6}
    assert values(figures, "tuner_requests_total", "result") == {"answered": 99.0, "failed": 1.0}
    assert values(figures, "tuner_failed_items_total", "layout") == {"1x4": 3.0}
    assert values(figures, "tuner_window_items_per_second", "layout") == {"1x4": 100.0}
    assert values(figures, "tuner_planned_windows") == {None: 8.0}


def test_warnings_are_counted_by_slug_and_their_texts_are_not_told() -> None:
    figures = figures_of_nothing()
    for _ in range(3):
        figures.warning("launch-failed", "secret\n in a text")

    assert values(figures, "tuner_warnings_total", "slug") == {"launch-failed": 3.0}
    assert b"secret" not in generate_latest(registry_of(figures))


def test_a_resumed_study_begins_with_what_its_file_holds() -> None:
    store = MemoryStore(virtual_study(SERVICE, **SHORT))
    virtual = VirtualBox(SERVICE, Noise(), seed=5, cores=4, clock=VirtualClock.resumed(store))
    run_study(virtual.box(), store, ProgressTee([]), PlannedStop(lambda: False), strategy_of(store.study()))
    figures = figures_of_nothing()
    scouted = replace(next(iter(store.windows())), block=WARMING_BLOCK)
    figures.recall([*store.windows(), scouted])

    assert sum(values(figures, "tuner_window_seconds_total", "layout").values()) == pytest.approx(40.0)
    assert sum(values(figures, "tuner_items_total", "layout").values()) == sum(
        one.n_done for one in store.windows()
    )


@pytest.mark.parametrize("name", ['a"} 1\ntuner_leader{x="', "b\x1b[31m", "c\u202e", "d" * 10_000, "e\udcff"])
def test_names_cannot_break_out_of_their_labels(name: str) -> None:
    study = virtual_study(SERVICE, **SHORT)
    figures = StudyFigures(study, name, name, lambda: Known({}, strategy_of(study).answer()))

    for text in (generate_latest(registry_of(figures)), openmetrics.generate_latest(registry_of(figures))):
        lines = text.decode().splitlines()
        assert not [line for line in lines if line.startswith("tuner_leader")]
        assert all(len(line) < 1000 and line.isprintable() for line in lines)


def test_the_number_of_series_is_bounded_by_the_layouts() -> None:
    layouts = [Layout(p, t) for p in range(1, 21) for t in range(1, 26)]
    figures = figures_of_nothing()
    for layout in layouts:
        figures.launch_started(layout, 0, 0, None)
        figures.window_taken(window(layout), 1, None, None)

    n = sum(len(family.samples) for family in registry_of(figures).collect())
    assert n <= 30 + 16 * len(layouts)


def test_the_file_is_kept_and_says_in_the_end_that_the_study_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "tuner.prom"
    warnings: list[tuple[str, str]] = []
    kept = []

    def beside(figures: StudyFigures) -> list[MetricsFile]:
        kept.append(MetricsFile(figures, path, lambda *result: warnings.append(result)))
        return kept

    told(beside=beside)
    kept[0].write()

    assert 'tuner_phase{box="box-7",phase="ended",' in path.read_text()
    assert warnings == []
    assert os.listdir(tmp_path) == ["tuner.prom"]


def test_a_folder_that_goes_away_is_reported_once_and_does_not_stop_the_study(tmp_path: Path) -> None:
    folder = tmp_path / "textfile"
    folder.mkdir()
    warnings: list[tuple[str, str]] = []
    figures = figures_of_nothing()
    kept = MetricsFile(figures, folder / "tuner.prom", lambda *result: warnings.append(result))
    (folder / "tuner.prom").unlink()
    folder.rmdir()
    kept.launch_started(A, 0, 0, None)
    kept.write()

    assert [slug for slug, _ in warnings] == ["metrics-file"]


@pytest.mark.parametrize(
    "name", ["tuner.txt", "missing/tuner.prom", "theirs.prom", "pipe.prom", f"{'x' * 300}.prom"]
)
def test_a_file_that_cannot_be_is_reported_beforehand(tmp_path: Path, name: str) -> None:
    (tmp_path / "theirs.prom").write_text("node_load1 1\n")
    os.mkfifo(tmp_path / "pipe.prom")

    with pytest.raises(ConfigError, match="--metrics-file"):
        MetricsFile(figures_of_nothing(), tmp_path / name, lambda *_: None)

    assert (tmp_path / "theirs.prom").read_text() == "node_load1 1\n"


def test_only_whoever_says_so_shows_metrics_to_others() -> None:
    for address in ("0.0.0.0:9188", "[::]:9188", "10.1.2.3:9188", "some.host:9188"):
        with pytest.raises(ConfigError, match="anyone"):
            parse_metrics_options(address, None, is_open=False)
        asked = parse_metrics_options(address, None, is_open=True)
        assert asked is not None
        assert asked.address is not None
    for address in ("127.0.0.1:9188", "[::1]:9188", "localhost:9188", "9188"):
        assert parse_metrics_options(address, None, is_open=False) is not None
    assert parse_metrics_options(None, None, is_open=False) is None


@pytest.mark.parametrize(
    "address", ["", ":9188", "127.0.0.1", "127.0.0.1:99999", "::1:9188", "a b:1", "x:-1", "1:1\n2"]
)
def test_an_address_that_is_none_is_reported(address: str) -> None:
    with pytest.raises(ConfigError, match="--metrics"):
        parse_metrics_options(address, None, is_open=True)


DASHBOARD = json.loads((Path(__file__).parents[2] / "deploy" / "grafana" / "tuner.json").read_text("utf-8"))


def test_every_panel_of_the_dashboard_asks_the_datasource_that_is_chosen() -> None:
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == [
        "datasource",
        "service",
        "study",
        "layout",
    ]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert 'study="$study"' in target["expr"]


def test_panels_of_the_dashboard_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_scouts_are_no_windows_of_a_layout_and_a_grid_that_grew_has_more_layouts() -> None:
    study = virtual_study(SERVICE, **SHORT)
    strategy = strategy_of(study)
    figures = StudyFigures(
        study, "s.tuner.db", "box-7", lambda: Known(strategy.estimates(), strategy.answer())
    )
    samples = (Sample(0, 0, 0, 1.0, 1.0, 1.0, 1), Sample(10, 40, 0, 1.0, 1.0, 1.0, 1))
    usage = tuple(Usage(x, x, 0, 0, 0, 0, 0, 0, None, 1, 4, None, None, None) for x in (0, 10))
    readings = (Reading(0, 0, 0), Reading(10, 40, 0))
    figures.launch_started(A, -1, 1, None)
    figures.window_taken(Window(A, 0, 1, 0.0, 10.0, 40, 0, samples, usage, readings), 0, None, None)
    grown = virtual_study(VirtualService({A: 10.0, B: 20.0, Layout(4, 2): 40.0}), **SHORT)
    figures.grew(grown)

    assert values(figures, "tuner_windows_total", "layout", result="valid") == {"1x4": 0.0}
    assert values(figures, "tuner_items_total", "layout") == {"1x4": 0.0}
    assert values(figures, "tuner_launches_total", "layout") == {"1x4": 1.0}
    assert values(figures, "tuner_study_layouts") == {None: 3.0}
