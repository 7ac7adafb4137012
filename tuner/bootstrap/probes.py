"""What counts the items of a service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.feeders import load_totals
from tuner.bootstrap.services import owner
from tuner.core.layout import Layout
from tuner.core.records import StudyRecord
from tuner.core.service import ServiceSpec
from tuner.ports import Clock, Probe

if TYPE_CHECKING:
    from tuner.config.probes import (
        CeleryProbeSettings,
        PrometheusProbeSettings,
        RedisProbeSettings,
        TermSettings,
    )
    from tuner.config.settings import Settings

Warn = Callable[[str, str], None]  #: gets a slug of docs/messages.md and a text


def probe_of(
    settings: Settings,
    spec: ServiceSpec,
    record: StudyRecord,
    clock: Clock,
    counters: Path,
    scratch: Path,
    warn: Warn,
) -> Probe:
    """The probe that *settings* ask for, to count what *spec* does.

    *counters* and *scratch* are folders of the study for who needs one.

    Raises:
        ConfigError: it could never count here.
    """
    asked = settings.service.probe
    match asked.kind:
        case "mmap-counter":
            from tuner.adapters.probes.mmap_counter import CounterProbe

            return CounterProbe(clock, counters, owner(settings))
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

            return UwsgiProbe(clock, asked.address, asked.timeout, warn)
        case "redis":
            return _redis(asked, clock, warn)
        case "celery":
            return _celery(asked, spec, record, clock, warn)
        case "generator":
            from tuner.adapters.probes.generator import GeneratorProbe

            return GeneratorProbe(clock, load_totals(scratch))


def _prometheus(asked: PrometheusProbeSettings, clock: Clock, warn: Warn) -> Probe:
    from tuner.adapters.probes.prometheus import Metric, PrometheusProbe

    done = Metric(asked.metric, asked.labels)
    failed = None if asked.failed is None else Metric(asked.failed.metric, asked.failed.labels)
    included = asked.failed_included
    return PrometheusProbe(clock, asked.url, done, failed, asked.timeout, warn, failed_included=included)


def _celery(
    asked: CeleryProbeSettings, spec: ServiceSpec, record: StudyRecord, clock: Clock, warn: Warn
) -> Probe:
    from tuner.adapters.job import Job
    from tuner.adapters.probes.celery import CeleryProbe, CeleryQuestion
    from tuner.adapters.worker_jobs import WorkerJobs
    from tuner.config.redaction import redacted

    def jobs(layout: Layout) -> list[Job]:
        programs = WorkerJobs(spec.of(layout), record.cores, cpus=None, marker="")
        return programs.jobs(layout, {}, logs=Path(), status=Path())

    def hide(text: str) -> str:
        return str(redacted(text))

    one_of_each_variant = {layout.variant: layout for layout in record.layouts}.values()
    question = CeleryQuestion(
        via=asked.via,
        broker=asked.broker,
        python=None if asked.python is None else str(asked.python),
        n_nodes=asked.nodes,
        timeout_s=asked.timeout,
    )
    return CeleryProbe(clock, question, jobs, tuple(one_of_each_variant), hide, warn)


def _redis(asked: RedisProbeSettings, clock: Clock, warn: Warn) -> Probe:
    from tuner.adapters.probes.redis import RedisProbe, Term

    def term(one: TermSettings) -> Term:
        return Term(*one.asked, sign=1 if one.sign == "plus" else -1)

    return RedisProbe(
        clock,
        asked.url,
        [term(one) for one in asked.count],
        [term(one) for one in asked.failed],
        asked.timeout,
        warn,
        falls=asked.falls,
        fed=None if asked.fed is None else term(asked.fed),
    )
