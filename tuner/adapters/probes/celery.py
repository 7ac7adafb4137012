"""Probe for Celery: a helper in the service's Python queries the nodes or counts their events."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator

from tuner.adapters.probes.helper import Helper, HelperStart
from tuner.adapters.probes.polled import Counts, PolledCounting, polling
from tuner.adapters.provenance import interpreter_of
from tuner.adapters.supervisord.config import Job
from tuner.adapters.supervisord.sweep import RUN_ID
from tuner.config.document import ConfigPath, check_file
from tuner.config.fields import Count, TimeLimit
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.safe_text import hidden_in
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

_PROGRAM = Path(__file__).parent / "helpers" / "celery_counts.py"
_SLACK_S = 5.0  #: time for the helper beyond the nodes' time limit, because it may have to reconnect
#: options of Celery's command line that set the app, broker and configuration
_OPTIONS = {
    "-A": "app",
    "--app": "app",
    "-b": "broker",
    "--broker": "broker",
    "--workdir": "workdir",
    "--loader": "loader",
    "--config": "config",
}
#: variables that may replace these options
_VARIABLES = {"APP", "CELERY_APP", "CELERY_BROKER_URL", "CELERY_CONFIG_MODULE", "CELERY_LOADER"}
_WITH_EVENTS = {"CELERY_WORKER_TASK_EVENTS": "1"}  #: has the effect of -E


def _broker(url: str) -> str:
    if re.fullmatch(r"[a-z+-]+://[^\s]*", url) is None:
        raise ValueError(
            "should be the URL of a broker, as redis://HOST:PORT/DB or amqp://USER:PASSWORD@HOST/VHOST"
        )
    return url


class CeleryProbeSettings(ProbeSettings):
    """tuner queries Celery's nodes or listens to their events."""

    kind: Literal["celery"]  #: Kind of probe
    #: Tasks that tuner counts: tasks that began (inspect), or tasks that ended (events). `via: events` costs
    #: CPU time for each task
    via: Literal["inspect", "events"] = "inspect"
    #: URL of Celery's broker; None: the broker of the Celery app
    broker: Annotated[str, AfterValidator(_broker)] | None = None
    python: Annotated[ConfigPath, AfterValidator(check_file)] | None = (
        None  #: Python interpreter that can import Celery; None: the interpreter of the command
    )
    #: Number of Celery nodes that must answer; None: the number of processes that tuner starts
    nodes: Count | None = None
    #: Time limit for the answers of all Celery nodes
    timeout: TimeLimit = 2.0

    @property
    def servers(self) -> Mapping[str, str]:
        """The broker, where the config names it."""
        return {} if self.broker is None else {"broker": self.broker}

    def build(self, _settings: Settings, around: Surroundings) -> CeleryProbe:
        """See `ProbeSettings`."""
        from tuner.adapters.supervisord.startup import WorkerJobs

        spec, record = around.spec, around.record

        def jobs(layout: Layout) -> list[Job]:
            programs = WorkerJobs(spec.of(layout), record.cores, cpus=None, marker="")
            return programs.jobs(layout, {}, logs=Path(), status=Path())

        one_of_each_variant = {layout.variant: layout for layout in record.layouts}.values()
        question = CeleryQuestion(
            via=self.via,
            broker=self.broker,
            python=None if self.python is None else str(self.python),
            n_nodes=self.nodes,
            timeout_s=self.timeout,
        )
        return CeleryProbe(around.clock, question, jobs, tuple(one_of_each_variant), around.warn)

    def counts_failed(self, _feeder: object) -> bool:
        """Events report them; the answers to inspect do not."""
        return self.via == "events"


@dataclass(frozen=True, slots=True)
class CeleryQuestion:
    """How to query the nodes, and which nodes."""

    via: Literal["inspect", "events"]
    broker: str | None = None  #: URL; None: the broker of the app that the command names
    python: str | None = None  #: Python interpreter; None: the one of the command
    n_nodes: int | None = None  #: None: the number of programs of the layout
    timeout_s: float = 2.0  #: time limit for the answers of the nodes


class CeleryProbe:
    """Reads the totals of every node at each sample, through a helper that is started before the launch.

    Args:
        jobs: the programs of a layout: the helper uses their command, folder, environment and user.
        checked: layouts for which the setup is checked now, one of each variant.

    Raises:
        ConfigError: no interpreter with Celery is found, the app cannot be loaded, or no broker is named.
    """

    def __init__(
        self,
        clock: Clock,
        question: CeleryQuestion,
        jobs: Callable[[Layout], Sequence[Job]],
        checked: Sequence[Layout],
        warn: Warn,
    ) -> None:
        self._clock = clock
        self._question = question
        self._jobs = jobs
        self._warn = warn
        for layout in checked:
            self._check(layout)

    def _check(self, layout: Layout) -> None:
        with closing(self._helper(layout, via="check")) as helper:
            try:
                helper.start()
            except (MeasurementError, ConfigError) as error:
                raise ConfigError(
                    f"the celery probe cannot begin: {error.problem}",
                    hint="probe.python names another interpreter; with probe.broker no app is loaded.",
                ) from error

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[CeleryCounting]:
        """Count during one launch; nodes that answer before the launch are excluded."""
        with closing(self._helper(layout, via=self._question.via)) as helper:
            try:
                ready = helper.start()
            except MeasurementError as error:
                raise MeasurementError(f"the celery probe cannot begin: {error.problem}") from error
            # if the helper is restarted, the service's own nodes answer, too
            helper.wanted = {**helper.wanted, "others": ready.get("others")}
            hears_events = self._question.via == "events"
            with polling(
                CeleryCounting(self._clock, helper, self._warn, hears_events=hears_events)
            ) as counting:
                yield counting

    def _helper(self, layout: Layout, via: str) -> Helper:
        jobs = self._jobs(layout)
        job, question = jobs[0], self._question
        environment = {**os.environ, **job.environment}
        words = [job.program, *job.argv[1:]]
        interpreter, assigned = interpreter_of(words, environment.get("PATH"), job.directory)
        if question.python is not None:
            interpreter = [question.python]
        elif not interpreter:
            raise ConfigError(
                f"cannot find the Python that runs Celery from the command {job.argv[0]}",
                hint="Name it: probe.python, the interpreter whose Celery the service uses.",
            )
        environment |= assigned
        given = {**environment, "probe.broker": question.broker or ""}

        def hide(text: str) -> str:
            return hidden_in(text, given, job.argv)

        environment.pop(RUN_ID, None)  # the helper is not a process of the launch
        for name in job.without:
            environment.pop(name, None)
        options = celery_options(words)
        named = options.keys() & {"app", "broker", "config"} or environment.keys() & _VARIABLES
        if question.broker is None and not named:
            raise ConfigError(
                "the celery probe cannot find the broker: the command names no app (-A)",
                hint="Name the broker: probe.broker, its URL.",
            )
        wanted: dict[str, Any] = {
            "via": via,
            "nodes": question.n_nodes or len(jobs),
            "timeout_s": question.timeout_s,
            "broker": question.broker,
            "options": options,
        }
        start = HelperStart(_PROGRAM, interpreter, environment, job.directory, job.user, hide)
        return Helper(start, wanted, question.timeout_s + _SLACK_S)


class CeleryCounting(PolledCounting):
    """Counts of one launch."""

    def __init__(self, clock: Clock, helper: Helper, warn: Warn, *, hears_events: bool) -> None:
        super().__init__(clock, self._counts, "Celery", warn)
        self._helper = helper
        self._hears_events = hears_events
        self._n_starts = helper.n_starts
        self._latest = Counts({})

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that make the nodes send events, if the helper listens to events."""
        return _WITH_EVENTS if self._hears_events else {}

    def pids(self) -> frozenset[int]:
        """Return the pid of the helper."""
        return self._helper.pids()

    def _counts(self) -> Counts:
        answer = self._helper.ask()
        if self._hears_events and self._helper.n_starts > self._n_starts:
            # A restarted helper that listens counts from 0. If its count has passed the old one by now, the
            # restart would go unnoticed. So report 0 first.
            self._n_starts = self._helper.n_starts
            self._latest = Counts(dict.fromkeys(self._latest.done, 0), dict.fromkeys(self._latest.failed, 0))
            return self._latest
        self._latest = Counts(_tasks(answer, "done"), _tasks(answer, "failed"))
        return self._latest


def celery_options(words: Sequence[str]) -> dict[str, str]:
    """Return the options in *words* that locate Celery's settings, by the names of ``_OPTIONS``."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _OPTIONS and (equals and name.startswith("--")):
            found[_OPTIONS[name]] = value
        elif word in _OPTIONS:
            found[_OPTIONS[word]] = next(rest, "")
        elif word[:2] in ("-A", "-b") and len(word) > 2:
            found[_OPTIONS[word[:2]]] = word[2:]
    return found


def _tasks(answer: Mapping[str, Any], what: str) -> dict[str, float]:
    reported = answer.get(what)
    if reported is None:
        return {}
    if not isinstance(reported, dict) or not all(
        type(count) is int and count >= 0 for count in reported.values()
    ):
        raise MeasurementError(f"the helper reported no counts of {what}: {str(answer)[:200]}")
    return {f"tasks {what} of {node}": count for node, count in reported.items()}
