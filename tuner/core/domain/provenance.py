"""Facts that a study file records about the host, the software and the start of a study."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, Self

USUAL_COMMAND = "tuner grid"  #: command of a study whose file names no other command
_OF_WORKERS = "worker_"  #: prefix of the names of facts of workers
_OF_LAYOUT = "inner_threads:"  #: prefix of a layout in the names of facts

# The workers of each variant.

_OF_VARIANT = "@"
GIL = "worker_gil"  #: "on" or "off": reported by the interpreter alone, before the study
GIL_SEEN = "worker_gil_seen"  #: "on" or "off": observed in running workers; has precedence
GIL_MODULE = "worker_gil_module"  #: module whose import switched the GIL on
PYTHON = "worker_python"  #: implementation and version
VERSION = "worker_version"  #: the version alone, in older files
IMPLEMENTATION = "worker_implementation"  #: the implementation alone, in older files


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Facts of the workers, in the form of a study file.

    The key is ``worker_python`` if all variants have the same fact, otherwise ``worker_python@3.13`` for each
    variant.
    """

    texts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_variants(cls, found: Mapping[str, Mapping[str, str]]) -> Self:
        """Return the facts *found* for each variant."""
        facts: dict[str, str] = {}
        for name in dict.fromkeys(name for own in found.values() for name in own):
            values = [own.get(name) for own in found.values()]
            if values[0] is not None and values.count(values[0]) == len(values):
                facts[name] = values[0]
                continue
            facts |= {
                f"{name}{_OF_VARIANT}{variant}": own[name] for variant, own in found.items() if name in own
            }
        return cls(facts)

    @classmethod
    def of_variant(cls, variant: str, facts: Mapping[str, str]) -> Self:
        """Return *facts* of one *variant*; "" is the service as it is."""
        return cls(
            {f"{name}{_OF_VARIANT}{variant}" if variant else name: text for name, text in facts.items()}
        )

    def fact(self, name: str, variant: str) -> str | None:
        """Return the fact *name* of the workers of one *variant*; None: unknown."""
        return self.texts.get(f"{name}{_OF_VARIANT}{variant}", self.texts.get(name))

    def of_all(self, name: str) -> str | None:
        """Return the fact *name* if it is the same for all variants; None: it differs, or is unknown."""
        return self.texts.get(name)

    def by_variant(self, name: str) -> dict[str, str]:
        """Return the fact *name* of each variant, if variants differ in it."""
        before = f"{name}{_OF_VARIANT}"
        return {key.removeprefix(before): text for key, text in self.texts.items() if key.startswith(before)}

    def has_gil(self, variant: str) -> bool | None:
        """Return whether the workers of a *variant* run with a GIL; None: unknown.

        Observed workers take precedence over the answer of the interpreter alone."""
        reported = self.fact(GIL_SEEN, variant) or self.fact(GIL, variant)
        return {"on": True, "off": False}.get(reported or "")

    def gil_came_back(self, variant: str) -> bool:
        """Return whether the interpreter alone has no GIL, but observed workers ran with one."""
        reported = self.fact(GIL, variant), self.fact(GIL_SEEN, variant)
        return reported == ("off", "on")

    @property
    def differing(self) -> frozenset[str]:
        """The names of the facts in which variants differ."""
        return frozenset(name for name, of, _ in (key.partition(_OF_VARIANT) for key in self.texts) if of)

    def for_each_variant(self, names: Collection[str], variants: Collection[str]) -> Self:
        """Return the same facts, with those of *names* stored for each of the *variants*."""
        found = {key: text for key, text in self.texts.items() if key.partition(_OF_VARIANT)[0] not in names}
        for name in names:
            for variant in variants:
                if (text := self.fact(name, variant)) is not None:
                    found[f"{name}{_OF_VARIANT}{variant}"] = text
        return type(self)(found)

    def without(self, name: str) -> Self:
        """Return the same facts, but not *name*."""
        return type(self)(
            {key: text for key, text in self.texts.items() if key.partition(_OF_VARIANT)[0] != name}
        )


# A study, or a host.


def _flag(key: str, text: str = "yes") -> Any:
    """Return a field that is true if the file has *text* under *key*."""
    return field(default=False, metadata={"key": key, "text": text})


@dataclass(frozen=True, slots=True)
class Provenance:
    """Facts of the host, the software and the start of a study, or of a host of a fleet; None: unknown.

    A fact has the same name in the file, except those that are true or false.
    """

    # the host
    host: str | None = None
    os: str | None = None
    kernel: str | None = None
    machine: str | None = None  #: type of processor, such as x86_64
    virtualization: str | None = None
    cpu: str | None = None
    cpu_frequency: str | None = None
    physical_cores: str | None = None
    threads_per_core: str | None = None
    cpus: str | None = None  #: number of CPUs on which tuner and the service may run
    host_cpus: str | None = None  #: number of CPUs of the host; None also: in a container
    #: number of CPUs on which tuner and the service may not run, and on whose physical cores neither; None
    #: also: there are none
    cpus_elsewhere: str | None = None
    physical_cores_of_cpus: str | None = None  #: number of physical cores to which these CPUs belong
    #: the same of the CPUs to which workers are held; None also: they use all CPUs
    physical_cores_of_workers: str | None = None
    cores: str | None = None  #: number of cores that the host offers
    cores_why: str | None = None
    memory: str | None = None
    swap: str | None = None
    governor: str | None = None
    clock_source: str | None = None
    steal_since_boot: str | None = None
    load_of: str | None = None  #: the tasks that the load average counts, if not all tasks of the host
    strangers: str | None = None  #: reason why other processes are not observable
    launch_cgroup: str | None = None  #: whether each launch has its own cgroup
    # the software
    tuner: str | None = None
    python: str | None = None  #: Python version of tuner
    supervisor: str | None = None
    user: str | None = None
    #: revision of the folder in which tuner ran; ``+``: with uncommitted changes
    git_revision: str | None = None
    workers: WorkerFacts = field(default_factory=WorkerFacts)
    # the start of the study
    made_by: str | None = None  #: command that made the study, if not the usual one
    config_file: str | None = None  #: path of the config as typed
    #: whether the service's command was typed on the command line, without a config
    is_command_typed: bool = _flag("command_typed")
    #: settings of the study typed on the command line, which override the config's, as JSON, texts by name;
    #: None: in older files
    study_typed: str | None = None
    is_quick: bool = _flag("quick", "true")  #: whether the study measures only a few of the layouts
    is_fleet: bool = _flag("fleet")  #: measured on several hosts, or on one host of a fleet
    simulated: str | None = None  #: name of the simulated profile; None: a service ran
    simulated_stream: str | None = None  #: name of the random streams, in addition to the seed
    has_first_look: bool = _flag("first_look")  #: whether the study begins with a first look
    #: whether the layouts are those of a grid, and scouts are launched first
    may_grow: bool = _flag("grid_grows")
    # a check
    check_of: str | None = None  #: path of the checked study
    check_of_created: str | None = None  #: creation time of the checked study
    check_current: str | None = None  #: layout in use; "": none was named
    # results before the first block, or during the study
    grid_grew: str | None = None  #: `Growth` as JSON; None: scouts were not launched
    clients_found: str | None = None  #: `ClientSearchResult` as JSON; None: there was no search
    #: computing threads in addition to the layout's, as JSON, by the layout's text
    inner_threads: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)  #: facts without a name in this version of tuner

    @property
    def in_container(self) -> bool:
        """Whether tuner ran in a container: its load averages count only the tasks of the service."""
        return self.load_of is not None

    @property
    def usable_physical_cores(self) -> float | None:
        """Physical cores on which tuner may run; a CPU quota may give less time. None: unknown.

        Older studies do not have it. A host that does not report the cores of its CPUs is assumed to have
        all CPUs of each core.
        """
        if (reported := _count(self.physical_cores_of_cpus)) is not None:
            return reported
        try:
            return float(self.cpus or "") / float(self.threads_per_core or "1")
        except (ValueError, ZeroDivisionError):
            return None

    @property
    def n_outside_cpus(self) -> float:
        """The number of CPUs of the host on which tuner and the service may not run; 0 also: unknown.

        They may be second threads of the usable cores. In a container, only its own CPUs are measured.
        """
        n_host, n_usable = _count(self.host_cpus), _count(self.cpus)
        return 0.0 if n_host is None or n_usable is None else max(0.0, n_host - n_usable)

    @property
    def n_cpus_elsewhere(self) -> float:
        """The number of these CPUs that share no physical core with a usable CPU; 0 also: unknown."""
        return min(self.n_outside_cpus, _count(self.cpus_elsewhere) or 0.0)

    @property
    def held_physical_cores(self) -> float | None:
        """Physical cores to which workers are held; None: unknown, or they use all CPUs."""
        return _count(self.physical_cores_of_workers)

    @classmethod
    def from_mapping(cls, texts: Mapping[str, str]) -> Self:
        """Read the facts from *texts* by their names in a study file."""
        known: dict[str, Any] = {}
        workers: dict[str, str] = {}
        inner: dict[str, str] = {}
        others: dict[str, str] = {}
        for key, text in texts.items():
            if key in _TEXTS:
                known[key] = text
            elif key in _FLAGS and text == _FLAGS[key][1]:
                known[_FLAGS[key][0]] = True
            elif key.startswith(_OF_WORKERS):
                workers[key] = text
            elif key.startswith(_OF_LAYOUT):
                inner[key.removeprefix(_OF_LAYOUT)] = text
            else:
                others[key] = text
        return cls(**known, workers=WorkerFacts(workers), inner_threads=inner, others=others)

    def to_mapping(self) -> dict[str, str]:
        """Return the known facts by their names in a study file, sorted by name."""
        texts = {name: text for name in _TEXTS if (text := getattr(self, name)) is not None}
        texts |= {key: text for key, (name, text) in _FLAGS.items() if getattr(self, name)}
        texts |= {f"{_OF_LAYOUT}{layout}": text for layout, text in self.inner_threads.items()}
        return dict(sorted({**texts, **self.workers.texts, **self.others}.items()))

    def updated(self, newer: Provenance) -> Self:
        """Return these facts, replaced by those of *newer* that are not None."""
        return self.from_mapping({**self.to_mapping(), **newer.to_mapping()})

    @property
    def command(self) -> str:
        """The command that made the study."""
        return USUAL_COMMAND if self.made_by is None else self.made_by


def _count(text: str | None) -> float | None:
    """Return the number above 0 in *text*; None: there is none."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < inf else None


_TEXTS = tuple(one.name for one in fields(Provenance) if one.default is None)
#: key in a study file -> the field, and the text that means True
_FLAGS = {one.metadata["key"]: (one.name, one.metadata["text"]) for one in fields(Provenance) if one.metadata}
