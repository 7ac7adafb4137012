"""What is said before a study starts anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def beginning(settings: Settings, record: StudyRecord, *, is_new: bool, n_hosts: int = 1) -> Sequence[str]:
    """What is measured, for how long and what is started, in lines."""
    from tuner.reports.beginning import describe_start
    from tuner.study.first_look import before

    times = before(record, n_hosts)
    return describe_start(
        record,
        n_first=times.n_first,
        look_s=times.look_s,
        first_s=times.first_s,
        answer_s=(times.quickest_s, times.longest_s),
        starts=_starts(settings, record),
        feeds=_feeds(settings),
        is_new=is_new,
    )


def beginning_grown(record: StudyRecord) -> str:
    """How long the study takes whose grid has grown."""
    from tuner.reports.beginning import describe_times
    from tuner.study.first_look import before

    times = before(record)
    return describe_times(record, times.n_first, times.first_s, (times.quickest_s, times.longest_s))


def _starts(settings: Settings, record: StudyRecord) -> str:
    from tuner.core.text.redaction import redact

    layout = record.layouts[0]
    service = settings.service_in(layout.variant)
    if service.kind == "crash-processor":
        return f"tuner's built-in crash processor, as {layout}"
    data = {name: text for name, text in redact(dict(service.environment)).items() if "{" in text}
    words = [shlex.join(_fill(redact([str(word) for word in service.command]), layout))]
    words = [
        *(
            f"{name}={shlex.quote(text)}"
            for name, text in zip(data, _fill(data.values(), layout), strict=True)
        ),
        *words,
    ]
    often = "" if service.programs == "one" or layout.processes == 1 else f", {layout.processes} times"
    return f"{' '.join(words)} (this is {layout}{often})"


def _fill(texts: Iterable[str], layout: Layout) -> Sequence[str]:
    fields = {"{processes}": layout.processes, "{threads}": layout.threads}
    for field, number in fields.items():
        texts = [text.replace(field, str(number)) for text in texts]
    return list(texts)


def _feeds(settings: Settings) -> str:
    service = settings.service
    if service.kind == "crash-processor":
        return "crash dumps of a spool that tuner fills"
    return service.feeder.describe()


def first_look_shown(file: Path) -> str:
    """The provisional ranking of the study in *file*; empty: it has none, or better is known by now."""
    from tuner.bootstrap.stores import open_store
    from tuner.reports.ranking.first_look import render_first_look
    from tuner.study.first_look import windows_of

    with open_store(file, read_only=True) as store:
        windows = store.windows()
        if any(window.block >= 0 and not window.void for window in windows):
            return ""
        return render_first_look(store.study(), windows_of(store.launches(), windows))
