"""Settings that let in what tuner's usual ones keep out: said beside every answer that rests on them."""

from __future__ import annotations

from tuner.core.defaults import MEMORY_PRESSURE_RATIO
from tuner.core.domain.records import StudyRecord
from tuner.core.text.durations import render_duration
from tuner.core.text.figures import percent
from tuner.core.windows.validity import foreign_limit_cores

USUAL_ATTEMPTS = 3
USUAL_SHORTEST_S = 60.0  #: of a window


def find_weakened(study: StudyRecord) -> tuple[str, ...]:
    """What is weaker than usual in how *study* was measured, in a few words each with the usual value."""
    found = []
    usual_cores = foreign_limit_cores(study.box_cores)
    limit_cores = study.foreign_limit_cores
    if limit_cores is not None and limit_cores > usual_cores:
        found.append(
            f"other processes may use {limit_cores:g} cores in a window that counts (usual: {usual_cores:g})"
        )
    if study.memory_pressure_limit_ratio > MEMORY_PRESSURE_RATIO:
        share, usual = percent(study.memory_pressure_limit_ratio), percent(MEMORY_PRESSURE_RATIO)
        found.append(f"tasks may wait for memory in {share} of a window that counts (usual: {usual})")
    if study.max_attempts > USUAL_ATTEMPTS:
        found.append(f"an invalid window is tried {study.max_attempts} times (usual: {USUAL_ATTEMPTS})")
    if study.warmup_s is not None:
        warmup = f"of {render_duration(study.warmup_s)}" if study.warmup_s else "skipped"
        found.append(f"warm-up {warmup} (usual: until it has settled)")
    if not study.warms_cache:
        found.append("no launch to warm the page cache (usual: one)")
    if study.shortest_window_s < USUAL_SHORTEST_S:
        window = render_duration(study.shortest_window_s)
        found.append(f"windows of {window} (usual: {render_duration(USUAL_SHORTEST_S)} or more)")
    return tuple(found)
