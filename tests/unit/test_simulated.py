"""What is said of the figures of a study that was simulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.adapters.virtual.box import VirtualService, virtual_study
from tuner.config.profile import profile_texts
from tuner.core.domain.layout import parse_layouts
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord, describe_assumed_memory
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.profile import Profile, ProfileMemory
from tuner.core.ranking.ranking import rank
from tuner.reports.ranking.ranking_words import notes

from ..wording import key_of, wording

THREADS = wording("simulate.memory-of-threads-unknown")


def simulated(layouts: str, memory: ProfileMemory) -> StudyRecord:
    profile = Profile("shop", Demands(0.02), Machine(4.0), memory=memory)
    study = virtual_study(VirtualService(dict.fromkeys(parse_layouts(layouts), 1.0)), n_blocks=1)
    config = StoredConfig.of_sections({"study": {}, "simulate": profile_texts(profile)})
    return replace(study, config=config, provenance=Provenance(simulated="shop"))


@pytest.mark.parametrize(
    ("layouts", "memory", "lines"),
    [
        ("1x1,1x4", ProfileMemory(50e6, 0.0), []),
        ("1x1,4x1", ProfileMemory(50e6), []),
        ("1x1,1x4", ProfileMemory(50e6), [THREADS]),
        (
            "1x1,4x1",
            ProfileMemory(),
            [wording("simulate.memory-unknown")],
        ),
        (
            "1x1,1x4",
            ProfileMemory(),
            [wording("simulate.memory-and-threads-unknown")],
        ),
    ],
    ids=key_of,
)
def test_memory_that_the_profile_did_not_know_is_reported(
    layouts: str, memory: ProfileMemory, lines: list[str]
) -> None:
    study = simulated(layouts, memory)

    assert describe_assumed_memory(study) == lines
    assert set(lines) <= set(notes(study, rank(study, [])))


def test_of_what_was_measured_all_memory_was_seen() -> None:
    assert describe_assumed_memory(replace(simulated("1x4", ProfileMemory()), provenance=Provenance())) == []
