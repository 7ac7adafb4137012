"""A study of gunicorn as a runbook shows it: six layouts, one of them the one in use, three blocks."""

from __future__ import annotations

from dataclasses import replace

from tuner.core.domain.layout import parse_layout
from tuner.core.domain.provenance import Provenance, WorkerFacts
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.safety_limits import parse_limits
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.pareto import Cost
from tuner.core.ranking.ranking import rank

BEGAN_S = 1_790_000_000.0
#: layout -> items in 10 minutes, in blocks 0, 1, 2
ITEMS = {
    "4x6@gthread": (2610, 2590, 2604),
    "6x4@gthread": (2596, 2601, 2588),
    "24x-@sync": (2120, 2101, 2097),
    "2x12@gthread": (1805, 1790, 1811),
    "1x24@gthread": (1002, 1011, 995),
    "8x-@sync": (0, 0, 0),
}
CONFIG = {
    "service": {
        "kind": "script",
        "record": "gunicorn",
        "name": "gunicorn",
        "command": ["gunicorn", "app:app"],
        "connections": "threads",
        "environment": {"DATABASE_URL": "postgresql://<hidden>@db/app"},
        "feeder": {"kind": "http", "url": "http://127.0.0.1:8000/", "rate": None},
        "programs": "each",
        "variants": {
            "gthread": {
                "command": ["gunicorn", "app:app"],
                "environment": {
                    "GUNICORN_CMD_ARGS": "--timeout=5 --workers={processes} --threads={threads}"
                    " --worker-class=gthread --no-control-socket --statsd-host={TUNER_STATSD}"
                },
                "programs": "one",
            },
            "sync": {
                "command": ["gunicorn", "app:app"],
                "environment": {
                    "GUNICORN_CMD_ARGS": "--workers={processes} --threads=1 --worker-class=sync"
                    " --no-control-socket --statsd-host={TUNER_STATSD}"
                },
                "programs": "one",
            },
        },
        "cautions": {"loses-at-stop": "requests longer than 30 s are cut off at a stop"},
    }
}
PROVENANCE = Provenance(
    host="stage-1",
    kernel="6.1.0-30-amd64",
    os="Debian GNU/Linux 12 (bookworm)",
    cpu="AMD EPYC",
    cpu_frequency="2596 MHz",
    memory="92.0 GiB",
    workers=WorkerFacts({"worker_python": "CPython 3.11.7", "worker_gil": "on"}),
    tuner="0.1.0",
    supervisor="4.3.0",
    git_revision="0123456789abcdef0123456789abcdef01234567",
)


def study(**changes: object) -> StudyRecord:
    """The record, with *changes*."""
    record = StudyRecord(
        service="gunicorn",
        strategy="all",
        layouts=tuple(map(parse_layout, ITEMS)),
        cores=24,
        box_cores=24.0,
        window_s=600.0,
        warmup_s=None,
        n_blocks=3,
        windows_per_launch=1,
        seed=1,
        budget_s=None,
        created_wall_s=BEGAN_S,
        config=StoredConfig.of_sections(CONFIG),
        provenance=PROVENANCE,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def overview(
    record: StudyRecord | None = None,
    *,
    current: str | None = "1x24@gthread",
    items: dict[str, tuple[int, ...]] | None = None,
    max_load: str | None = None,
    costs: tuple[Cost, ...] = (),
    name: str = "gunicorn.tuner.db",
) -> Overview:
    """The study as it stands."""
    record = record or study()
    windows, launches = [], []
    for block in range(3):
        for place, (text, done) in enumerate((items or ITEMS).items()):
            number = 10 * block + place
            at_s = BEGAN_S + 700.0 * (6 * block + place)
            windows.append(_window(number, block, text, done[block], at_s))
            launches.append((number, _launch(block, place, text, at_s)))
    ranking = rank(
        record,
        windows,
        current=None if current is None else parse_layout(current),
        limits=parse_limits({"load": max_load}),
        costs=costs,
    )
    return Overview(name, record, ranking, launches, windows, "nobody looked")


def _window(number: int, block: int, layout: str, items: int, at_s: float) -> WindowRecord:
    of = parse_layout(layout)
    return WindowRecord(
        launch_id=number,
        block=block,
        layout=of,
        box="stage-1",
        index=0,
        attempt=1,
        started_wall_s=at_s + 60,
        length_s=600.0,
        n_done=items,
        n_failed=0,
        load1_mean=10.0 + 0.1 * block + of.processes / 10,
        load1_max=11.0 + of.processes / 10,
        n_active_mean=10.0 + of.processes / 10,
        service_cpu_s=6000.0,
        tuner_cpu_s=1.0,
        backend_cpu_s=0.0,
        foreign_cpu_s=3.0,
        steal_s=0.0,
        pss_bytes=50e6 * of.processes + 2e6 * of.total_threads,
        void=() if items else (VoidReason("nothing-done", "0 items"),),
    )


def _launch(block: int, place: int, layout: str, at_s: float) -> LaunchRecord:
    return LaunchRecord(
        block=block,
        position=place,
        attempt=1,
        layout=parse_layout(layout),
        box="stage-1",
        started_wall_s=at_s,
        running_after_s=2.0,
        warmup_s=58.0,
        settled=True,
        ended_wall_s=at_s + 670.0,
    )
