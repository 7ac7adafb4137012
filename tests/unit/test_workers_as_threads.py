"""Servers whose workers are threads of one process where the GIL of their Python is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from tuner.bootstrap.configs import describe_service
from tuner.config.settings import Settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.search.growth import Scout, walk
from tuner.reports.services import render_service
from tuner.services.derived.rollouts import rollout_of
from tuner.services.expansion import Surroundings, expand_service
from tuner.services.granian import SERVICE

from ..wording import wording

VARIANTS = {
    "3.13": {"command": ["python3.13", "granian", "app:app"]},
    "3.13t": {"command": ["python3.13t", "granian", "app:app"]},
}


def is_off(command: Sequence[str], _environment: Mapping[str, str]) -> bool:
    return command[0].endswith("t")


def section(command: str, **more: Any) -> dict[str, Any]:
    asked = {"kind": "granian", "command": command, **more}
    return expand_service(SERVICE, asked, {}, None, Surroundings(is_off))


def settings(asked: Mapping[str, Any], *layouts: str) -> Settings:
    study = {"layouts": list(layouts)} if layouts else {"grid": "divisors"}
    return Settings.model_validate({"service": dict(asked), "study": study})


@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_without_a_gil_the_threads_of_a_layout_are_the_workers_of_granian(interface: str) -> None:
    result = section(f"python3.13t -m granian --interface {interface} app:app")

    assert (result["programs"], result["workers"], result["os_threads"]) == ("one", "threads", "at-start")
    assert result["environment"] == {
        "GRANIAN_WORKERS": "{threads}",
        "GRANIAN_BLOCKING_THREADS": "1",
        "GRANIAN_RUNTIME_THREADS": "1",
    }
    assert result["ready"]["count"] == "threads"
    assert result["cautions"] == {"workers-are-threads": wording("services.workers-are-threads")}


def test_where_the_command_has_numbers_of_its_own_flags_say_how_many_workers_there_are() -> None:
    result = section("python3.13t -m granian --workers 8 app:app")

    assert result["command"][-3:] == ["--workers={threads}", "--blocking-threads=1", "--runtime-threads=1"]
    assert result["environment"] == {}


def test_with_a_gil_workers_are_processes_as_before() -> None:
    result = section("python3.13 -m granian app:app")

    assert "workers" not in result
    assert result["environment"] == {"GRANIAN_WORKERS": "{processes}", "GRANIAN_RUNTIME_THREADS": "{threads}"}
    assert result["cautions"] == {}


def test_each_interpreter_of_an_axis_has_layouts_of_its_own_kind() -> None:
    result = section("granian app:app", variants=VARIANTS)

    asked = settings(result, "1x1", "2x2", "1x4")

    assert [str(one) for one in asked.layouts_for(2)] == [
        "1x1@3.13",
        "1x1@3.13t",
        "2x2@3.13",
        "1x4@3.13",
        "1x4@3.13t",
    ]
    assert result["cautions"] == {"workers-are-threads": "3.13t: " + wording("services.workers-are-threads")}


def test_the_grid_has_one_process_and_as_many_threads_as_others_have_workers() -> None:
    asked = settings(section("granian app:app", variants=VARIANTS))

    layouts = [one for one in asked.layouts_for(4) if one.variant == "3.13t"]

    assert layouts == [Layout(1, n, "3.13t") for n in (1, 2, 4, 8)]
    assert len(asked.layouts_for(4)) > 2 * len(layouts)


@pytest.mark.parametrize("variants", [{}, {"variants": VARIANTS}], ids=["plain", "of-an-axis"])
def test_several_processes_are_refused_with_the_layout_to_write_instead(variants: dict[str, Any]) -> None:
    result = section("python3.13t -m granian app:app", **variants)
    at = "@3.13t" if variants else ""

    with pytest.raises(ValidationError) as raised:
        settings(result, f"2x2{at}")

    assert wording("services.one-process-only", at=at) in str(raised.value)


def test_workers_can_be_threads_of_one_program_only() -> None:
    asked = {"kind": "script", "name": "web", "command": ["web", "{threads}"], "workers": "threads"}

    with pytest.raises(ValidationError) as raised:
        settings(asked, "1x1")

    assert wording("services.threads-of-one-program") in str(raised.value)
    assert settings({**asked, "programs": "one"}, "1x2").layouts_for(2) == (Layout(1, 2),)


def test_a_grid_of_one_process_grows_by_threads_alone() -> None:
    """Twice the threads gave no more: twice the processes are not tried."""
    corner, more = Layout(1, 4, "3.13t"), Layout(1, 8, "3.13t")
    scouts = [Scout(corner, 100.0, ("waiting",)), Scout(more, 100.0, ("waiting",))]

    (way,) = walk([corner], scouts, lambda _layout: None, one_process=("3.13t",))
    (forking,) = walk([corner], scouts, lambda _layout: None)

    assert (way.ended, way.next) == ("no-gain", None)
    assert forking.next == Layout(2, 4, "3.13t")


def test_a_study_knows_which_of_its_variants_have_one_process() -> None:
    asked = settings(section("granian app:app", variants=VARIANTS), "1x1")

    assert StoredConfig(asked.model_dump_json()).service.one_process_variants == {"3.13t"}


def test_production_starts_as_many_workers_as_the_layout_has_threads() -> None:
    asked = settings(section("granian --port 80 app:app", variants=VARIANTS), "1x4")

    rollout = rollout_of(
        asked.service.model_dump(mode="json"), Layout(1, 4, "3.13t"), 2, {"granian": SERVICE}
    )

    assert rollout.n_programs == 1
    assert rollout.environment["GRANIAN_WORKERS"] == "4"
    assert rollout.options["workers"] == "4"


def test_the_record_says_so() -> None:
    page = render_service(describe_service("granian"))

    assert wording("services.granian-without-gil") in page
