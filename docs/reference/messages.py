"""The lists of messages.md: each slug of `tuner.core.messages`, with an example and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Agreement, LostInSlices
from tuner.core.domain.window import VoidReason
from tuner.core.messages import Entry, Kind, Message, entries, fleet, host, invalid, launch, service, study
from tuner.core.stats.interval import Estimate

BIG = Layout(4, 6)
BEGIN = "<!-- {}: made from tuner/core/messages/ (make reference), change it there -->\n"
END = "<!-- end -->\n"
FEWEST_WORDS, MOST_WORDS = 5, 10  #: of an example that is cut; the rest is on the reader's screen
TABLES: dict[str, Kind] = {"reasons": "invalid", "warnings": "warning"}

REASONS = (
    invalid.braked("load 31.20 is over 24, for 10s"),
    invalid.wall_clock_jumped(3600),
    invalid.counts_fell("finished", 120, 3),
    invalid.counts_unreadable(2),
    invalid.disturbed(1.7, 0.24),
    invalid.launcher_died("supervisord"),
    invalid.processes_extra(BIG, 7, 4),
    invalid.processes_alike(BIG, 2, Layout(2, 6), 2),
    invalid.memory_pressure(0.12, 0.05),
    invalid.no_items(),
    invalid.packets_lost(12),
    invalid.probe_gap(12, 1, ""),
    invalid.probes_disagree(("probe queue", "cross_check log"), (1200, 1100.0), 0.083, 0.01, 24),
    invalid.source_dry(""),
    invalid.stalled(12.3, 1),
    invalid.stolen(0.8, 0.24),
    invalid.worker_died("process 2 of 4 (pid 4711)", "exit status 1; its log ends: MemoryError"),
    invalid.wrong_threads("process 1 of 4 (pid 4711)", 2, 6, 6),
)

WARNINGS = (
    service.address_found("http://127.0.0.1:9000", "127.0.0.1:8000"),
    service.certificate_unchecked("https://127.0.0.1:8443"),
    service.clients_not_found("4x6: the load generator has ended", 48),
    service.connections_uneven(BIG, 2, 3, 9, 0.12),
    service.latency_at_saturation(),
    service.queue_left(BIG, "connection refused"),
    service.queue_shared(BIG, 12, "celery"),
    service.computed_in_file("gunicorn", "./gunicorn.conf.py", "-k", "gthread"),
    service.requests_failed(BIG, 40, 1000, {"timeout": 30, "5xx": 10}, {5: 503}),
    service.redirected(BIG, 990, 1000, 302),
    fleet.box_gone("host-b", "its process ended"),
    fleet.box_left_out("host-b", "it offers 8 cores, and the study is for 24"),
    fleet.box_twice("host-a"),
    fleet.launch_lost("host-b", BIG, "some of its messages were lost"),
    fleet.needs_boxes(2),
    host.backend_found("redis-server", 812, "localhost:6379", forwards=False),
    host.container_load(8, has_cgroup=True, hidden=""),
    host.hook_failed("the after_launch hook clean.sh failed with exit code 7"),
    host.leftover_processes("after", ["4711 python worker.py"], ended=True),
    host.memory_missed(0.08),
    host.metrics_file("tuner.prom", "No space left on device"),
    host.no_backend("redis-server"),
    host.host_speed("", 0.12, 0.09, 0.15, "2026-11-28 02:10 UTC"),
    study.no_memory_for_heat(2, 1.5e9, 1.2e9),
    study.slices_disagree(Agreement(BIG, Layout(6, 4), 1.18, 1.02, Estimate(1.18, 1.12, 1.24), holds=False)),
    study.slices_lose_throughput(LostInSlices(0.266, ())),
    study.slices_too_long("4x6", 2.0),
    host.no_launch_cgroup(BIG, "Permission denied"),
    host.no_live_file("night.tuner.db.live", "No space left on device"),
    host.no_memory_figures(),
    host.still_over("load 31.20 is over 24", 60),
    host.unfit("port", "8000 is in use by nginx", "no launch can start", "stop nginx"),
    host.view_failed(ValueError("no such row")),
    launch.few_items(BIG, 2, 60, 3000),
    launch.gil_came_back("_fast", ""),
    launch.inner_threads(BIG, 96, 24, "OMP_NUM_THREADS is not set (OpenMP)"),
    launch.launch_failed("process 1 of 4 of 4x6 died at start: exit status 7", 1, 3),
    launch.log_long(1, 4, BIG, 32 << 20, 16 << 20),
    launch.memory_grows(BIG, (60e6, 52e6, 68e6), 500e6, 1.94e9, 86_400, is_long=False),
    launch.mixed_items(BIG, 0.02, 0.02, 20, 0.8),
    launch.never_settled(BIG, "trend: -9 % per hour"),
    launch.nothing_counted(BIG, 60, "", ""),
    launch.over_limit(BIG, "in window 1: load 31.20 is over 24, for 10s"),
    launch.several_interpreters(BIG, 4),
    launch.stopped_by_kill(BIG, 1, 4, 60, "TERM"),
    launch.throughput_falls(BIG, 0.048, 0.039, 0.057, is_long=False),
    service.count_restarted("http://127.0.0.1:9100/metrics", "jobs_total", 1200, 3),
    service.cross_check_gap(BIG, "cross_check log", 12, ""),
    service.log_cut(BIG, "worker.log", 1),
    service.log_lines_long(BIG, "worker.log", 3),
    service.packets_lost(BIG, 12),
    service.statsd_lines(BIG, "unreadable", 3, "'jobs.done'", "jobs.done:x|c"),
    service.statsd_names(BIG, "'jobs.done'", ["app.jobs.done (c)"]),
    service.failures_counted("rq", "queue", "failed items, too"),
    service.loses_at_stop("waitress", [("waitress", "requests that wait for a thread")]),
    service.nothing_feeds("Celery works on the messages in its queue. Record a sample (tuner sample)"),
    service.probe_costs("events cost Celery 0.3 to 0.7 ms of CPU per task"),
    service.describe_queue("celery", "CELERY_WORKER_QUEUES=jobs"),
    service.service_behind("./start.sh", "gunicorn"),
    service.workers_are_threads("granian"),
    study.box_not_quiet(10),
    study.braked(BIG, "in window 1: load 31.20 is over 24, for 10s", None),
    study.budget_over(3, 3),
    study.warmups_cut(0, "40 min", "25 min"),
    study.block_without_window(BIG, 2),
    study.chosen_otherwise(2, 3),
    study.fails_alike(2, Layout(1, 1)),
    study.grid_grows("4x6", "8x12", 9, 14),
    study.left_out(BIG),
    study.never_started("gunicorn", Layout(1, 1), failed_in="start"),
    study.source_away("connection refused", 600),
)


def with_tables(page: str) -> str:
    """Return *page* with the lists of the catalogue between its marks.

    Raises:
        ValueError: a mark is missing, or a slug has no example.
    """
    for name, kind in TABLES.items():
        begin = BEGIN.format(name)
        head, found, rest = page.partition(begin)
        _, ends, tail = rest.partition(END)
        if not (found and ends):
            raise ValueError(f"messages.md has no marks for {name}")
        page = f"{head}{begin}\n{render_list(kind)}\n{END}{tail}"
    return page


def render_list(kind: Kind) -> str:
    """Render one list, by slug."""
    examples = texts(REASONS if kind == "invalid" else WARNINGS)
    found = entries(kind)
    if {one.slug for one in found} != set(examples):
        raise ValueError(f"not one example for each: {sorted({one.slug for one in found} ^ set(examples))}")
    return "".join(_row(one, examples[one.slug]) for one in found)


def texts(of: Iterable[Message | VoidReason]) -> dict[str, str]:
    """Return the sentence of each slug."""
    return {one.slug: one.text if isinstance(one, Message) else one.detail for one in of}


def _row(entry: Entry, example: str) -> str:
    meaning = f" {entry.happened}" if entry.happened else ""
    return f"- `{entry.slug}`: *{_beginning(example)}*.{meaning} {entry.to_do}\n"


def _beginning(example: str) -> str:
    """Return a long sentence up to the last clause that ends within `MOST_WORDS`, or else to the next end."""
    words = example.split()
    if len(words) <= MOST_WORDS:
        return example
    clauses = [example[: end.start()] for end in re.finditer(r"[,;:.] (?![^(]*\))", example)]
    whole = [clause for clause in clauses if len(clause.split()) >= FEWEST_WORDS] or [example]
    short = [clause for clause in whole if len(clause.split()) <= MOST_WORDS]
    chosen = short[-1] if short else whole[0]
    return example if chosen == example else f"{chosen}…"
