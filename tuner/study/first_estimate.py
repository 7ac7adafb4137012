"""How long a study may take, before anything of it was measured: guesses, which the first block replaces."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

from tuner.core.domain.records import StudyRecord
from tuner.core.search.growth import GREW, GROWS, LOOKS
from tuner.core.search.racing import FIRST_WINDOW_S, N_REPLICATES, N_SPREAD, SOONER
from tuner.study import first_look
from tuner.study.timetable import before_launches_s, guess_s

LENGTH_REF_S = 600.0  #: as the posterior of a race has it: half of the noise of such a window averages out
SCOUTS = 2  #: looks at the edge of a grid, usually
#: launches of a race beyond the first block: at the least, and the most per layout that may be best of at
#: most so many, beside so many in all (docs/race.md has what races took)
MOST_PER_LAYOUT, MOST_RIVALS, MOST_BESIDE = 5, 24, 35


@dataclass(frozen=True, slots=True)
class Before:
    """Seconds, from the first launch on."""

    n_first: int  #: layouts of the first block
    look_s: float | None  #: until the ranking of a first look; None: there is none
    first_s: float  #: until each of them was seen once, what comes before the first block included
    quickest_s: float  #: until the answer, if it comes early
    longest_s: float  #: in most studies; inf: nobody can say


def before(study: StudyRecord, n_hosts: int = 1) -> Before:
    """What *study* may take on so many hosts; a budget is not looked at.

    Each host measures whole blocks of a grid; in a race all begin with the same layout.
    """
    facts = study.provenance
    begins = "made_by" not in facts and GREW not in facts  #: nobody has looked at anything yet
    takes_look = begins and facts.get(LOOKS) == "yes"
    beside_s, n = guess_s(study), len(study.layouts)
    is_race = study.strategy == "race"
    first_window_s = study.window_s * study.windows_per_launch
    if is_race:
        first_window_s = _within(study, FIRST_WINDOW_S)
    n_first = n_of_first_block(study)
    ahead_s = beside_s if study.warms_cache else 0.0
    if begins and facts.get(GROWS) == "yes":
        ahead_s = SCOUTS * (beside_s + min(60.0, study.shortest_window_s))
    ahead_s += before_launches_s(study)
    if takes_look:
        ahead_s += first_look.lasts_s(study)
    in_a_row = n_first if n_hosts == 1 or not is_race else 1 + ceil((n_first - 1) / n_hosts)
    first_s = ahead_s + in_a_row * (beside_s + first_window_s)
    if not is_race:
        launches = {"aa": 2, "check": 2}.get(study.strategy, 1) * n * ceil(max(1, study.n_blocks) / n_hosts)
        all_s = ahead_s + launches * (beside_s + first_window_s)
        return Before(n_first, None, first_s, all_s, inf if study.strategy == "check" else all_s)
    later_s = beside_s + _within(study, SOONER * sqrt(beside_s * LENGTH_REF_S))
    most = MOST_PER_LAYOUT * min(n, MOST_RIVALS) + MOST_BESIDE
    look_s = first_look.lasts_s(study) if takes_look else None
    quickest_s, longest_s = (first_s + ceil(k / n_hosts) * later_s for k in (N_REPLICATES, most))
    return Before(n_first, look_s, first_s, quickest_s, longest_s)


def n_of_first_block(study: StudyRecord) -> int:
    """How many layouts the first block has: a race may begin with some that are well spread."""
    n = len(study.layouts)
    return min(n, N_SPREAD) if study.strategy == "race" and study.kind != "strict" else n


def _within(study: StudyRecord, length_s: float) -> float:
    return min(study.window_s, max(study.shortest_window_s, length_s))
