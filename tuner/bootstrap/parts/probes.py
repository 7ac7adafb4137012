"""What counts the items of a service."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.parts.feeders import StudyName, claim_of, load_totals
from tuner.bootstrap.parts.services import owner
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import ServiceSpec
from tuner.ports import Clock, CrossCheck, Probe, Warn

if TYPE_CHECKING:
    from tuner.config.probes import (
        CeleryProbeSettings,
        LogProbeSettings,
        ProbeSettings,
        PrometheusProbeSettings,
        RedisProbeSettings,
        SqlProbeSettings,
        TermSettings,
    )
    from tuner.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a probe may need of the study around it."""

    spec: ServiceSpec  #: the service, as launches start it
    record: StudyRecord
    clock: Clock
    counters: Path  #: a folder for those who count in memory
    scratch: Path  #: the feeder's folder
    logs: Callable[[], Sequence[Path]]  #: of the programs of the launch under way; none while there is none
    study: StudyName
    warn: Warn


CROSS_CHECK_WITHIN = 0.02  #: of a window's items, unless told otherwise


def cross_check_of(settings: Settings, around: Surroundings) -> CrossCheck | None:
    """The second probe that *settings* ask for, if any; ConfigError as for ``probe_of``."""
    service = settings.service
    if service.cross_check is None:
        return None
    within = CROSS_CHECK_WITHIN if service.cross_check_within is None else service.cross_check_within
    names = f"probe {service.probe.kind}", f"cross_check {service.cross_check.kind}"
    return CrossCheck(probe_of(service.cross_check, settings, around), within, names)


def probe_of(asked: ProbeSettings, settings: Settings, around: Surroundings) -> Probe:
    """The probe that is *asked* for, of the service of *settings*.

    Raises:
        ConfigError: it could never count here.
    """
    clock, warn = around.clock, around.warn
    match asked.kind:
        case "mmap-counter":
            from tuner.adapters.probes.mmap_counter import CounterProbe

            return CounterProbe(clock, around.counters, owner(settings), asked.module)
        case "command":
            from tuner.adapters.probes.command import CommandProbe

            return CommandProbe(clock, asked.command, asked.timeout, settings.service.directory, warn)
        case "statsd":
            from tuner.adapters.probes.statsd import StatsdProbe

            included = asked.failed_included
            return StatsdProbe(clock, asked.name, asked.failed, warn, failed_included=included)
        case "prometheus":
            return _prometheus(asked, clock, warn)
        case "uwsgi":
            from tuner.adapters.probes.uwsgi import UwsgiProbe

            return UwsgiProbe(clock, asked.stats, asked.timeout, warn)
        case "redis":
            return _redis(asked, settings, clock, warn)
        case "log":
            return _log(asked, around)
        case "sql":
            return _sql(asked, settings, clock, warn)
        case "celery":
            return _celery(asked, around)
        case "generator":
            from tuner.adapters.probes.generator import GeneratorProbe

            return GeneratorProbe(clock, load_totals(around.scratch))
        case "queue":
            return _queue(asked.timeout, settings, around)


def _prometheus(asked: PrometheusProbeSettings, clock: Clock, warn: Warn) -> Probe:
    from tuner.adapters.probes.prometheus import Metric, PrometheusProbe

    done = Metric(asked.metric, asked.labels)
    failed = None if asked.failed is None else Metric(asked.failed.metric, asked.failed.labels)
    included = asked.failed_included
    return PrometheusProbe(clock, asked.url, done, failed, asked.timeout, warn, failed_included=included)


def _celery(asked: CeleryProbeSettings, around: Surroundings) -> Probe:
    from tuner.adapters.probes.celery import CeleryProbe, CeleryQuestion
    from tuner.adapters.supervisord.job import Job
    from tuner.adapters.supervisord.worker_jobs import WorkerJobs

    spec, record = around.spec, around.record

    def jobs(layout: Layout) -> list[Job]:
        programs = WorkerJobs(spec.of(layout), record.cores, cpus=None, marker="")
        return programs.jobs(layout, {}, logs=Path(), status=Path())

    one_of_each_variant = {layout.variant: layout for layout in record.layouts}.values()
    question = CeleryQuestion(
        via=asked.via,
        broker=asked.broker,
        python=None if asked.python is None else str(asked.python),
        n_nodes=asked.nodes,
        timeout_s=asked.timeout,
    )
    return CeleryProbe(around.clock, question, jobs, tuple(one_of_each_variant), around.warn)


def _queue(timeout_s: float, settings: Settings, around: Surroundings) -> Probe:
    from tuner.adapters.probes.queue import QueueProbe

    assert settings.service.kind == "script"
    fed = settings.service.feeder
    assert fed.kind == "queue"  # the settings see to that
    claim = claim_of(around.study)
    return QueueProbe(around.clock, fed.url, fed.form, fed.queue, claim, timeout_s, around.warn)


def _is_there_already(settings: Settings) -> bool:
    """Whether what a service needs runs before the study begins: no hook starts it."""
    return not (settings.hooks.before_study or settings.hooks.before_launch)


def _redis(asked: RedisProbeSettings, settings: Settings, clock: Clock, warn: Warn) -> Probe:
    from tuner.adapters.probes.redis import RedisProbe, Term

    def term(one: TermSettings) -> Term:
        return Term(*one.asked, sign=1 if one.sign == "plus" else -1)

    probe = RedisProbe(
        clock,
        asked.url,
        [term(one) for one in asked.count],
        [term(one) for one in asked.failed],
        asked.timeout,
        warn,
        falls=asked.falls,
        fed=None if asked.fed is None else term(asked.fed),
    )
    if _is_there_already(settings):
        probe.check()
    return probe


def _log(asked: LogProbeSettings, around: Surroundings) -> Probe:
    from tuner.adapters.probes.log import LogProbe, logs_of_programs, logs_of_user

    done = re.compile(asked.pattern.encode())
    failed = None if asked.failed is None else re.compile(asked.failed.encode())
    files = asked.files
    if files is None:
        return LogProbe(around.clock, done, failed, lambda: logs_of_programs(around.logs()), around.warn)
    return LogProbe(around.clock, done, failed, lambda: logs_of_user(files), around.warn)


def _sql(asked: SqlProbeSettings, settings: Settings, clock: Clock, warn: Warn) -> Probe:
    from tuner.adapters.probes.sql import SqlProbe

    url, file, timeout_s = asked.url, asked.file, asked.timeout
    if file is not None:
        from tuner.adapters.probes.sqlite_database import SqliteDatabase

        return SqlProbe(clock, lambda: SqliteDatabase(file, timeout_s), asked.query, asked.failed, warn)
    from tuner.adapters.probes.postgres_database import PostgresDatabase, check_postgres_url

    check_postgres_url(url)
    probe = SqlProbe(clock, lambda: PostgresDatabase(url, timeout_s), asked.query, asked.failed, warn)
    if _is_there_already(settings):
        probe.check()
    return probe
