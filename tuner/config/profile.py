"""Profiles of services as YAML files: reading, checking and writing.

Every key may be left out but the name, a demand above nothing, and the machine's cores. Durations and memory
have units, shares may be percentages: ``gil: 586ms``, ``process: 60MB``, ``window: 5%``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tuner.config.document import Document, FileKind, read_document
from tuner.config.problems import problems
from tuner.config.profile_sections import DEMANDS, AgingSection, ProfileFile
from tuner.core.domain.records import StudyRecord
from tuner.core.errors import ConfigError
from tuner.core.model.demand import Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.profile import FAILURES, Failure, Profile, ProfileAging, ProfileMemory, ProfileNoise
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import parse_duration, parse_size

# Rendering of a profile as a file: every key with its unit and meaning.

_WIDTH = 100
_LIST_WIDTH = 60  #: what it means stands behind its last line
_KEY_WIDTH = 32  #: of a key with its value; what it means stands behind

_HEAD = """\
# A service as tuner's model describes it: the demands of one item, the host, and the noise of its windows.
#
#   tuner grid --simulate THIS-FILE     a study on a simulated host, in seconds
#
# Durations and memory have units (586ms, 3.3s, 1m; 60MB, 1.5GiB). Shares are 5% or 0.05.
"""

_OF_SECTION = {
    "demands": "Mean demands of one item, each for all visits of the item together.",
    "machine": "Host of the measurement. A simulated host is the same, but without other processes.",
    "terms": "Additional demands of larger layouts. All are 0 unless the data require them.",
    "noise": "Noise of throughput: standard deviations, as shares of the throughput.",
    "memory": "Proportional set size (PSS). A missing key is unknown, or included in the other keys.",
    "launch": "Times of a launch.",
    "aging": "Changes of a launch as it lasts; default: none.",
    "failures": "Probabilities of faults, per launch (the first three) or per window (the others).",
    "intervals": "Intervals of the measured demands.",
}

_MEANING = {
    "demands.gil": "CPU of the worker's own threads that holds the GIL",
    "demands.python": "CPU of these threads without the GIL: C code that releases it",
    "demands.child": "CPU of the children that an item starts",
    "demands.asleep": "interruptible waits: sockets, locks, sleeps",
    "demands.blocked": "uninterruptible waits, which count as load: disks, NFS",
    "demands.spawn": "time from fork until the child runs its program, without CPU",
    "demands.others": "active time of other tasks, such as kernel threads: counts as load, not as CPU",
    "demands.gil_visits": "number of times that an item acquires the GIL",
    "demands.spread": "standard deviation of each demand / its mean, up to 100%",
    "machine.cores": "logical cores that the service may use",
    "machine.physical_cores": "physical cores; if fewer, the rest are second threads (SMT); default: all",
    "machine.threads_per_core": "logical cores of a physical one, for hosts with more cores; default: 1",
    "machine.smt_gain": "speed that a second thread adds to a physical core",
    "machine.foreign_cores": "CPU that other processes used during the measurement",
    "machine.busy_cores": "most cores that a layout kept busy; default: unknown; only for tuner predict",
    "machine.gil": "no: a free-threaded interpreter, or workers that are not Python",
    "machine.switch_interval": "sys.getswitchinterval()",
    "machine.handover": "CPU for handing the GIL to a waiting thread",
    "machine.wake": "time that a woken thread waits for a busy core before it requests the GIL",
    "terms.process_cores": "cores that each process uses even without items",
    "terms.cpu_per_process": "growth of every CPU demand per process beyond the first",
    "terms.blocked_per_process": "growth of `blocked` per process beyond the first",
    "terms.threaded_asleep": "additional `asleep` if a process has several threads",
    "terms.convoy": "`gil` grows by this share x (1 - 1/threads)",
    "noise.window": "noise of each window, of any length",
    "noise.launch": "noise from launch to launch, shared by the windows of a launch",
    "noise.drift": "drift of the host over hours, equal for all layouts",
    "noise.drift_ar1": "correlation of the drift from one launch to the next",
    "noise.second": "noise of one second; default: the random variation of single items",
    "noise.model": "noise of layouts around the model; default: unknown; only for tuner predict",
    "noise.host": "noise of the host from second to second, shared by layouts that take turns; default: none",
    "noise.host_lasts": "correlation time of `host`; default: 1m",
    "memory.process": "memory of a worker process with its first thread",
    "memory.thread": "memory of each further thread",
    "memory.child": "memory of a running child",
    "memory.shared": "memory of the main process, and of pages that all processes share",
    "launch.start": "time until every process is RUNNING",
    "launch.settle": "time after that during which throughput rises",
    "launch.stop": "time until every process has ended",
    "aging.loss": "share of its throughput that a launch loses in its first hour",
    "aging.growth": "growth of its memory in the first hour",
    "aging.settles": "time constant with which both end; default: never",
    "aging.layouts": "layouts that change; default: all",
    "failures.dies-at-start": "a worker ends before all are RUNNING",
    "failures.dies-warming": "a worker ends during the warm-up",
    "failures.late-threads": "a process starts its threads later than the others",
    "failures.dies": "a worker ends during a window",
    "failures.wrong-threads": "a process has another number of threads than the layout",
    "failures.foreign-cpu": "other processes use the host",
    "failures.dry": "the source runs out of items",
    "failures.clock-jump": "the clock is set",
}
#: of keys that may be left out
_EXAMPLES = {
    "machine.physical_cores": "12",
    "machine.threads_per_core": "2",
    "machine.busy_cores": "1.9",
    "noise.second": "20%",
    "noise.model": "4%",
    "noise.host": "10%",
    "noise.host_lasts": "1m",
    "memory.process": "60MB",
    "memory.thread": "1MB",
    "memory.child": "25MB",
    "memory.shared": "40MB",
    "aging.loss": "6%",
    "aging.growth": "60MB",
    "aging.settles": "10m",
    "aging.layouts": "[4x6]",
}
_NO_AGING = dict.fromkeys(("loss", "growth", "settles", "layouts"))  #: the keys of a profile without aging
#: of the whole file
_MEANING_OF_HEAD = {
    "simulated": ("gil-bound", "simulated profile; default: none"),
    "measured": ("[1x1, 2x4]", "layouts on which the figures are based; default: unknown"),
}


def render_profile(profile: Profile) -> str:
    """Return the file text of *profile*; ``read_profile`` restores every value exactly."""
    texts = profile_texts(profile)
    lines = [_HEAD, *(_head_line(key, texts[key]) for key in ("name", "source"))]
    for key, (example, meaning) in _MEANING_OF_HEAD.items():
        line = _head_line(key, texts[key]) if key in texts else f"# {key}: {example}"
        lines.append(f"{line:<{_KEY_WIDTH}}  # {meaning}")
    for section, meaning in _OF_SECTION.items():
        lines += ["", f"{section}:  # {meaning}", *_lines(section, texts.get(section, _NO_AGING))]
    return "\n".join(lines) + "\n"


def profile_texts(profile: Profile) -> dict[str, Any]:
    """Return *profile* as nested mappings of texts for a study file; ``parse_profile`` reads them.

    ``simulated`` and ``measured`` are absent where the profile has none.
    """
    demands, machine, terms, noise = profile.demands, profile.machine, profile.terms, profile.noise
    texts: dict[str, Any] = {
        "name": profile.name,
        "source": profile.source,
        **({"simulated": profile.simulated} if profile.simulated else {}),
        **({"measured": [str(one) for one in profile.measured]} if profile.measured else {}),
        "demands": {
            **{name: _duration(getattr(demands, field)) for name, field in DEMANDS.items()},
            "others": _duration(demands.others_s),
            "gil_visits": str(demands.n_gil_visits),
            "spread": _share(demands.cv_ratio),
        },
        "machine": {
            "cores": _plain(machine.cores),
            "physical_cores": None if machine.physical_cores is None else _plain(machine.physical_cores),
            "threads_per_core": None if machine.threads_per_core == 1 else _plain(machine.threads_per_core),
            "smt_gain": _share(machine.smt_gain_ratio),
            "foreign_cores": _plain(machine.foreign_cores),
            "busy_cores": None if profile.busy_cores is None else _plain(profile.busy_cores),
            "gil": "yes" if machine.has_gil else "no",
            "switch_interval": _duration(machine.switch_interval_s),
            "handover": _duration(machine.handover_s),
            "wake": _duration(machine.wake_s),
        },
        "terms": {
            "process_cores": _plain(terms.process_cores),
            "cpu_per_process": _share(terms.cpu_per_process_ratio),
            "blocked_per_process": _share(terms.blocked_per_process_ratio),
            "threaded_asleep": _duration(terms.threaded_asleep_s),
            "convoy": _share(terms.convoy_ratio),
        },
        "noise": {
            "window": _share(noise.window_sd),
            "launch": _share(noise.launch_sd),
            "drift": _share(noise.drift_sd),
            "drift_ar1": _plain(noise.drift_ar1),
            "second": None if noise.second_sd is None else _share(noise.second_sd),
            "model": None if noise.model_sd is None else _share(noise.model_sd),
            "host": _share(noise.host_sd) if noise.host_sd else None,
            "host_lasts": _duration(noise.host_lasts_s) if noise.host_sd else None,
        },
        "memory": {
            "process": _bytes(profile.memory.process_bytes),
            "thread": _bytes(profile.memory.thread_bytes),
            "child": _bytes(profile.memory.child_bytes),
            "shared": _bytes(profile.memory.shared_bytes),
        },
        "launch": {
            "start": _duration(profile.start_s),
            "settle": _duration(profile.settle_s),
            "stop": _duration(profile.stop_s),
        },
        **({} if profile.aging is None else {"aging": _aging_texts(profile.aging)}),
        "failures": {kind: _share(profile.failures[kind]) for kind in FAILURES if kind in profile.failures},
        "intervals": {
            name: {
                end: _duration(value)
                for end in ("mean", "low", "high")
                if (value := getattr(profile.intervals[field], end)) is not None
            }
            for name, field in DEMANDS.items()
            if field in profile.intervals
        },
    }
    return texts


def _aging_texts(aging: ProfileAging) -> dict[str, Any]:
    return {
        "loss": _share(aging.loss_per_h) if aging.loss_per_h else None,
        "growth": _bytes(aging.growth_bytes_per_h) if aging.growth_bytes_per_h else None,
        "settles": None if aging.settles_s is None else _duration(aging.settles_s),
        "layouts": [str(one) for one in aging.layouts] or None,
    }


def _head_line(key: str, value: str | list[str]) -> str:
    """Return the lines of one top-level key; a long value takes several lines."""
    is_list = isinstance(value, list)
    text: str = yaml.safe_dump(
        {key: value},
        allow_unicode=True,
        width=_LIST_WIDTH if is_list else _WIDTH,
        default_flow_style=None if is_list else False,  # a list is in brackets, behind its key
    )
    return text.rstrip("\n")


def _lines(section: str, texts: Mapping[str, Any]) -> Iterator[str]:
    if not texts:
        yield "  {}"
    for key, text in texts.items():
        if isinstance(text, Mapping):
            yield f"  {key}: {{{', '.join(f'{name}: {value}' for name, value in text.items())}}}"
            continue
        place = f"{section}.{key}"
        line = f"  # {key}: {_EXAMPLES[place]}" if text is None else f"  {key}: {text}"
        yield f"{line:<{_KEY_WIDTH}}  # {_MEANING[place]}"


def _plain(value: float) -> str:
    """Return *value* exactly, without an exponent: 24, 0.05, 0.000005."""
    exact = Decimal(repr(float(value)))
    whole = exact.to_integral_value()
    return f"{whole if exact == whole else exact:f}"


def _share(value: float) -> str:
    return f"{Decimal(repr(float(value))).scaleb(2).normalize():f}%"


def _duration(seconds: float) -> str:
    """Return a duration in seconds; in milliseconds if it is below 1 s and this is exact."""
    if 0 < seconds < 1:
        milliseconds = f"{Decimal(repr(float(seconds))).scaleb(3).normalize():f}ms"
        if parse_duration(milliseconds) == seconds:
            return milliseconds
    return f"{_plain(seconds)}s"


def _bytes(size: float | None) -> str | None:
    """Return *size* in megabytes if this is exact, else in bytes; None if it is unknown."""
    if size is None:
        return None
    megabytes = f"{Decimal(repr(float(size))).scaleb(-6).normalize():f}MB"
    try:
        if parse_size(megabytes) == size:
            return megabytes
    except ConfigError:
        pass  # parse_size rejects 0MB
    return f"{_plain(size)}B"


__all__ = ["parse_profile", "profile_texts", "read_profile", "render_profile"]

PROFILE = FileKind("profile", "configs/profiles/socorro-2014.yaml")


def read_profile(path: Path) -> Profile:
    """Read and check the profile at *path*.

    Raises:
        ConfigError: the file is unreadable, or with all its errors as ``file:line:column: key: problem``.
    """
    return _profile_of(read_document(path, PROFILE))


def parse_profile(texts: Mapping[str, Any], name: str) -> Profile:
    """Return the profile from the *texts* of ``profile_texts``; *name* is the file that contains them.

    Raises:
        ConfigError: this version of tuner cannot read them.
    """
    return _profile_of(Document(name, texts))


def stored_profile(record: StudyRecord, file: Path) -> Profile:
    """Return the profile that the simulated study in *file* uses."""
    return parse_profile(record.config.sections["simulate"], str(file))


def _profile_of(document: Document) -> Profile:
    if "demands" not in document.values and {"service", "study"} & set(document.values):
        raise ConfigError(
            f"{document.name} is a config, not a profile",
            hint=f"Make a profile of its service: tuner calibrate {document.name} --into NAME.yaml",
        )
    try:
        file = ProfileFile.model_validate(document.values)
    except ValidationError as error:
        found = problems(error, document, document.values, {}, ProfileFile)
        hint = None if len(found) == 1 else f"{len(found)} things to put right in {document.name}."
        raise ConfigError("\n".join(found), hint=hint) from error
    demands, machine, terms, noise = file.demands, file.machine, file.terms, file.noise
    failures: dict[Failure, float] = {kind: file.failures[kind] for kind in FAILURES if kind in file.failures}
    return Profile(
        name=file.name,
        source=file.source,
        demands=Demands(
            **{field: getattr(demands, name) for name, field in DEMANDS.items()},
            others_s=demands.others,
            n_gil_visits=demands.gil_visits,
            cv_ratio=demands.spread,
        ),
        machine=Machine(
            cores=machine.cores,
            physical_cores=machine.physical_cores,
            threads_per_core=machine.threads_per_core or 1.0,
            smt_gain_ratio=machine.smt_gain,
            foreign_cores=machine.foreign_cores,
            has_gil=machine.gil,
            switch_interval_s=machine.switch_interval,
            handover_s=machine.handover,
            wake_s=machine.wake,
        ),
        terms=Terms(
            process_cores=terms.process_cores,
            cpu_per_process_ratio=terms.cpu_per_process,
            blocked_per_process_ratio=terms.blocked_per_process,
            threaded_asleep_s=terms.threaded_asleep,
            convoy_ratio=terms.convoy,
        ),
        noise=ProfileNoise(
            window_sd=noise.window,
            launch_sd=noise.launch,
            drift_sd=noise.drift,
            drift_ar1=noise.drift_ar1,
            second_sd=noise.second,
            model_sd=noise.model,
            host_sd=noise.host or 0.0,
            host_lasts_s=noise.host_lasts or 60.0,
        ),
        memory=ProfileMemory(
            process_bytes=file.memory.process,
            thread_bytes=file.memory.thread,
            child_bytes=file.memory.child,
            shared_bytes=file.memory.shared,
        ),
        simulated=file.simulated or "",
        measured=tuple(file.measured or ()),
        busy_cores=machine.busy_cores,
        start_s=file.launch.start,
        settle_s=file.launch.settle,
        stop_s=file.launch.stop,
        failures=failures,
        aging=None
        if file.aging == AgingSection()
        else ProfileAging(
            loss_per_h=file.aging.loss,
            growth_bytes_per_h=file.aging.growth or 0.0,
            settles_s=file.aging.settles,
            layouts=tuple(file.aging.layouts or ()),
        ),
        intervals={
            DEMANDS[name]: Estimate(one.mean, one.low, one.high) for name, one in file.intervals.items()
        },
    )
