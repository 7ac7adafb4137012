"""What a study's windows give as a whole, and what of it a profile keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.virtual.box import VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.adapters.virtual.profile import profile_box
from tuner.config.profile import read_profile, render_profile
from tuner.core.domain.layout import parse_layouts
from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.domain.records import simulation_notes
from tuner.core.errors import ConfigError
from tuner.core.model.calibration.calibrated import Calibrated, of_profile
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.explanation import GIL_ASSUMED
from tuner.core.model.machine import Machine
from tuner.core.model.profile import Profile, ProfileMemory, ProfileNoise
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.stats.interval import Estimate
from tuner.reports.model.calibration import calibration_facts, render_calibration
from tuner.study.calibration_run import around_their_means, read_calibration
from tuner.study.run import run_study

from ..raising import raises
from ..wording import start_of, wording

SHOP = Profile(
    "shop",
    Demands(0.02, child_s=0.06, asleep_s=0.04),
    Machine(4.0),
    noise=ProfileNoise(window_sd=0.005, launch_sd=0.005),
    memory=ProfileMemory(process_bytes=50e6, thread_bytes=2e6, child_bytes=20e6),
    settle_s=5.0,
)
KNOWN = Provenance(workers=WorkerFacts({"worker_gil": "on"}))


def stored(layouts: str, provenance: Provenance = KNOWN, cores: int = 4, shop: Profile = SHOP) -> MemoryStore:
    """A study of *layouts* that was run on a box as *shop* has it."""
    named = parse_layouts(layouts)
    plan = {"n_blocks": 3, "warmup_s": 30.0, "warms_cache": False, "window_s": 60.0, "cores": cores}
    study = virtual_study(VirtualService(dict.fromkeys(named, 1.0)), **plan)
    store = MemoryStore(replace(study, provenance=provenance, box_cores=float(cores)))
    clock = VirtualClock.resumed(store, shop.stop_s)
    box = profile_box(shop, cores=cores, n_layouts=len(named), seed="1", name="box", clock=clock)
    run_study(box.box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    return store


def with_more_used(quiet: MemoryStore, *, box_cores: float = 4.0, **cores: float) -> MemoryStore:
    """The same study, with so many cores more under each of these names of usage, in every window."""
    store = MemoryStore(replace(quiet.study(), box_cores=box_cores))
    for launch_id, launch in quiet.launches():
        store.add_launch(launch)
        for kept in quiet.windows():
            if kept.launch_id == launch_id:
                window = quiet.window(launch_id, kept.index, kept.attempt)
                *before, last = window.usage
                used = {name: getattr(last, name) + more * window.length_s for name, more in cores.items()}
                usage = (*before, replace(last, **used))
                store.add_window(launch_id, replace(window, usage=usage))
    return store


def through_a_file(calibrated: Calibrated, folder: Path) -> Calibrated:
    """What `tuner predict` knows of it by the profile that `tuner calibrate --into` writes."""
    file = folder / "shop.yaml"
    file.write_text(render_profile(calibrated.calibration.profile), encoding="utf-8")
    return of_profile(read_profile(file))


def test_a_profile_keeps_which_layouts_it_rests_on_and_the_cores_that_were_busy(tmp_path: Path) -> None:
    calibrated = read_calibration(stored("1x1,2x2,4x1"), "s.db")

    kept = through_a_file(calibrated, tmp_path)

    assert kept.seen.layouts == calibrated.seen.layouts == tuple(parse_layouts("1x1,2x2,4x1"))
    assert kept.seen.busy_cores == calibrated.seen.busy_cores > 1.5
    assert kept.seen.known_cores == calibrated.seen.known_cores


def test_a_profile_of_a_simulated_study_says_so_in_the_same_words(tmp_path: Path) -> None:
    store = stored("1x1", replace(KNOWN, simulated="shop"))
    calibrated = read_calibration(store, "s.db")

    kept = through_a_file(calibrated, tmp_path)

    assert kept.simulated == calibrated.simulated == tuple(simulation_notes(store.study()))
    assert wording("simulate.no-service-ran-model-gave", profile="shop", cores=4) in start_of(
        kept.simulated[0]
    )
    assert through_a_file(read_calibration(stored("1x1"), "s.db"), tmp_path).simulated == ()


@pytest.mark.parametrize("layouts", ["1x1", "1x1,1x4,4x1"])
def test_what_starting_children_takes_is_reported_and_kept_apart_from_waiting_for_disks(
    layouts: str, tmp_path: Path
) -> None:
    """A simulated box shows what its sampler would: of ten looks at 1x1 one finds a child that starts."""
    starting = replace(SHOP, demands=replace(SHOP.demands, blocked_s=0.03, spawn_s=0.015))

    calibrated = read_calibration(stored(layouts, shop=starting), "s.db")

    result = calibration_facts(calibrated)["demands"]["spawn_s"]
    assert result["low"] < result["mean"] < result["high"]
    assert result["mean"] == pytest.approx(0.015, rel=0.05)
    assert calibrated.calibration.profile.demands.blocked_s == pytest.approx(0.03, rel=0.05)
    assert "starting children" in render_calibration(calibrated)
    assert wording("model.start-of-children-is-part") not in render_calibration(calibrated)
    kept = through_a_file(calibrated, tmp_path)
    assert kept.calibration.profile.demands.spawn_s == pytest.approx(result["mean"], rel=0.01)


def test_memory_that_could_not_be_reported_is_not_nothing_in_a_profile(tmp_path: Path) -> None:
    calibrated = read_calibration(stored("1x1"), "s.db")

    kept = through_a_file(calibrated, tmp_path)

    assert "\n  # thread: " in (tmp_path / "shop.yaml").read_text()
    assert kept.memory is not None
    assert kept.memory.identified == {"process"}
    several = through_a_file(read_calibration(stored("1x1,1x4,4x1,2x2"), "s.db"), tmp_path).memory
    assert several is not None
    assert "thread" in several.identified


def test_the_memory_of_each_layout_is_predicted_from_the_others() -> None:
    calibrated = read_calibration(stored("1x1,1x4,4x1,2x2"), "s.db")

    measured = {one.layout: one.pss_bytes for one in calibrated.measured}
    assert calibrated.left_out is not None
    for row in calibrated.left_out.rows:
        assert row.measured_bytes == measured[row.layout]
        assert row.predicted_bytes == pytest.approx(row.measured_bytes, rel=0.2)
    assert len(calibrated.left_out.memory_errors) == 4


def test_intervals_of_a_profile_hold_what_is_most_likely() -> None:
    for layouts in ("1x1", "1x1,1x4", "1x1,1x4,4x1,2x2"):
        profile = read_calibration(stored(layouts), "s.db").calibration.profile

        for name, one in profile.intervals.items():
            assert one.low is not None
            assert one.high is not None
            assert one.low <= getattr(profile.demands, name) <= one.high, (layouts, name)


def test_an_interval_beside_its_mean_is_widened_to_it() -> None:
    """As draws give it where own CPU is 100 ms, all with the GIL, and less of it the more there is."""
    beside, around = Estimate(0.1, 0.084, 0.0998), Estimate(0.05, 0.04, 0.06)

    assert around_their_means({"gil_s": beside, "child_s": around}) == {
        "gil_s": Estimate(0.1, 0.084, 0.1),
        "child_s": around,
    }


def test_windows_of_another_variant_are_left_aside_and_said_to_be() -> None:
    calibrated = read_calibration(stored("1x1,2x2,4x1@gevent,1x4@gevent"), "s.db")

    assert calibrated.seen.layouts == tuple(parse_layouts("1x1,2x2"))
    assert wording("model.variant-left-aside") in render_calibration(calibrated)
    assert "Left aside" not in render_calibration(read_calibration(stored("1x1,2x2"), "s.db"))


def test_one_variant_alone_is_calibrated_as_it_is() -> None:
    calibrated = read_calibration(stored("1x1@gevent,2x2@gevent"), "s.db")

    assert calibrated.seen.layouts == tuple(parse_layouts("1x1@gevent,2x2@gevent"))


def test_of_two_variants_and_nothing_else_one_is_to_be_named() -> None:
    store = stored("1x1@fast,1x1@gevent,2x2@fast")
    with raises(ConfigError, wording("model.windows-of-two-variants")) as caught:
        read_calibration(store, "s.db")

    assert caught.value.hint == wording("model.say-which-variant")
    assert read_calibration(store, "s.db", variant="fast").seen.layouts == tuple(
        parse_layouts("1x1@fast,2x2@fast")
    )


def test_the_variant_that_is_named_is_calibrated_and_the_service_as_it_is_left_aside() -> None:
    calibrated = read_calibration(stored("1x1,2x2,1x1@gevent,4x1@gevent"), "s.db", variant="gevent")

    assert calibrated.seen.layouts == tuple(parse_layouts("1x1@gevent,4x1@gevent"))
    assert wording("model.variants-differ") in render_calibration(calibrated)


def test_a_variant_that_was_not_measured_is_reported_with_those_that_were() -> None:
    with pytest.raises(ConfigError) as caught:
        read_calibration(stored("1x1,1x1@gevent"), "s.db", variant="fast")

    assert caught.value.problem == (wording("model.variants-with-windows"))


def test_a_gil_that_was_assumed_is_said_to_be() -> None:
    assert (
        GIL_ASSUMED in calibration_facts(read_calibration(stored("1x1", Provenance()), "s.db"))["sentences"]
    )
    for known in ("on", "off"):
        result = read_calibration(
            stored("1x1", Provenance(workers=WorkerFacts({"worker_gil": known}))), "s.db"
        )
        assert GIL_ASSUMED not in result.calibration.notes


def test_strangers_on_cores_that_the_service_may_not_use_are_none(tmp_path: Path) -> None:
    """Half a core of strangers: the box has four cores more than the study, or none."""
    found = {}
    for box_cores in (4.0, 8.0):
        store = with_more_used(stored("1x1"), box_cores=box_cores, box_cpu_s_total=0.5)
        calibrated = read_calibration(store, "s.db")
        found[box_cores] = calibrated.foreign_cores
        of_file = through_a_file(calibrated, tmp_path)
        assert of_file.foreign_cores == calibrated.foreign_cores
        assert of_file.seen.machine == calibrated.seen.machine

    assert found[4.0] == pytest.approx(0.5, abs=0.05)  # and what tuner used
    assert found[8.0] == 0.0


def test_interrupts_are_not_printed_as_cpu_of_other_processes() -> None:
    quiet = stored("1x1")

    without, calibrated = (
        read_calibration(one, "s.db") for one in (quiet, with_more_used(quiet, interrupt_s_total=0.5))
    )

    assert calibrated.foreign_cores == pytest.approx(without.foreign_cores)
    assert not calibrated.is_disturbed


def test_backends_keep_cores_busy_as_the_service_itself_does() -> None:
    quiet = stored("1x1,2x1")
    store = with_more_used(quiet, box_cpu_s_total=0.5, backend_cpu_s_total=0.5)

    without, calibrated = (read_calibration(one, "s.db") for one in (quiet, store))

    assert calibrated.seen.busy_cores == pytest.approx(without.seen.busy_cores + 0.5, abs=0.01)
    assert calibrated.calibration.profile.busy_cores == calibrated.seen.busy_cores
    assert [one.cpu_cores for one in calibrated.measured] == pytest.approx(
        [0.5 + (one.cpu_cores or 0.0) for one in without.measured], abs=0.01
    )


def test_no_calibration_knows_what_starting_a_child_takes() -> None:
    text = render_calibration(read_calibration(stored("1x1"), "s.db"))

    assert "starting children" not in text
    assert wording("model.start-of-children-is-part-of-waiting") in text
