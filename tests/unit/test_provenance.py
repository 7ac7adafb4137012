"""Facts of where and why a study ran: as its file has them, and as values."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.bootstrap.stores import open_store
from tuner.core.domain.provenance import Provenance, WorkerFacts

STUDIES = sorted((Path(__file__).parents[2] / "bench" / "studies").glob("*.tuner.db"))
NAMES = [one.name for one in fields(Provenance)]
FLAGS = {"quick": "true", "fleet": "yes", "first_look": "yes", "grid_grows": "yes", "command_typed": "yes"}
#: keys of any kind: known ones, flags, of workers, of layouts, and others
KEYS = (
    st.sampled_from([*NAMES, *FLAGS, "worker_gil", "worker_gil@a", "inner_threads:2x4", "boot"]) | st.text()
)


@settings(max_examples=50)
@given(st.dictionaries(KEYS, st.sampled_from(["yes", "true", "", "no"]) | st.text()))
def test_what_a_file_has_comes_back_whatever_it_is(texts: dict[str, str]) -> None:
    assert Provenance.from_mapping(texts).to_mapping() == texts


def test_each_fact_has_its_field_and_those_of_other_names_are_kept() -> None:
    texts = {"host": "a", "worker_gil@x": "on", "inner_threads:2x4": "{}", "boot": "1", **FLAGS}

    assert Provenance.from_mapping(texts) == Provenance(
        host="a",
        workers=WorkerFacts({"worker_gil@x": "on"}),
        inner_threads={"2x4": "{}"},
        others={"boot": "1"},
        is_quick=True,
        is_fleet=True,
        has_first_look=True,
        may_grow=True,
        is_command_typed=True,
    )


def test_facts_come_in_the_order_of_a_file() -> None:
    found = Provenance(tuner="1", host="a", is_fleet=True, others={"boot": "1"}).to_mapping()

    assert list(found) == ["boot", "fleet", "host", "tuner"]


def test_a_newer_fact_takes_the_place_of_one_of_its_name_alone() -> None:
    before = Provenance(host="a", workers=WorkerFacts({"worker_gil": "off"}), inner_threads={"1x1": "1"})

    assert before.updated(Provenance(grid_grew="{}", inner_threads={"2x1": "2"})) == Provenance(
        host="a",
        workers=WorkerFacts({"worker_gil": "off"}),
        inner_threads={"1x1": "1", "2x1": "2"},
        grid_grew="{}",
    )


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_a_study_that_was_measured_has_no_fact_without_a_field(file: Path) -> None:
    with open_store(file, read_only=True) as store:
        study = store.study()

    assert study.provenance.others == {}


@pytest.mark.parametrize(
    ("reported", "cores"), [(None, 8), ("8", 8), ("9", 9), ("", 8), ("0", 8), ("inf", 8), ("nan", 8)]
)
def test_physical_cores_are_those_reported_and_else_all_cpus_by_the_threads_of_the_first_core(
    reported: str | None, cores: float
) -> None:
    host = Provenance(cpus="16", threads_per_core="2", physical_cores_of_cpus=reported)

    assert host.usable_physical_cores == cores
    assert Provenance().usable_physical_cores is None
