"""A short campaign of each kind, as an ordinary user; docs/method/faults.md has a thousand kills."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from .campaign import campaign
from .killed_service import Typist
from .toll import Toll

pytestmark = [pytest.mark.integration]
SEED = int(os.environ.get("TUNER_TEST_SEED", "7"))


@pytest.fixture
def typist(ordinary) -> Typist:
    become = {}
    if ordinary.user is not None:
        group = pwd.getpwnam(ordinary.user).pw_gid
        become = {"user": ordinary.user, "group": group, "extra_groups": []}
    return Typist(ordinary.program, ordinary.folder, dict(ordinary.environment), become)


def as_promised(toll: Toll, n_kills: int) -> None:
    """What else is broken the campaign itself raises."""
    assert toll.kills.total() == n_kills
    assert toll.n_windows > 0
    assert toll.n_spoilt <= n_kills


def test_a_simulated_study_is_the_same_to_the_byte_after_kills_at_random_moments(tmp_path: Path) -> None:
    toll = campaign(Typist((), tmp_path), "simulated", 10, SEED)

    as_promised(toll, 10)
    assert toll.n_identical == toll.n_studies


def test_kills_of_tuner_and_all_that_it_starts_cost_a_window_each_at_most(typist: Typist) -> None:
    toll = campaign(typist, "script", 3, SEED)

    as_promised(toll, 3)
    assert toll.unnamed == []
    assert toll.longest_s <= 10
