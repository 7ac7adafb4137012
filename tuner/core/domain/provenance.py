"""What a study file records of where, with what and why the study ran, as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from tuner.core.domain.worker_facts import WorkerFacts

USUAL_COMMAND = "tuner grid"  #: made a study whose file does not name another command
_OF_WORKERS = "worker_"  #: begins the names of facts of workers
_OF_LAYOUT = "inner_threads:"  #: before a layout


def _flag(key: str, text: str = "yes") -> Any:
    """Return a field that is true where the file has *text* under *key*."""
    return field(default=False, metadata={"key": key, "text": text})


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where, with what and why a study ran, or what a host of a fleet is; None: not known.

    A fact has the same name in the file, but for those that are true or false.
    """

    # the host
    host: str | None = None
    os: str | None = None
    kernel: str | None = None
    machine: str | None = None  #: the kind of processor: x86_64
    virtualization: str | None = None
    cpu: str | None = None
    cpu_frequency: str | None = None
    physical_cores: str | None = None
    threads_per_core: str | None = None
    cores: str | None = None  #: that it offers
    cores_why: str | None = None
    memory: str | None = None
    swap: str | None = None
    governor: str | None = None
    clock_source: str | None = None
    steal_since_boot: str | None = None
    load_of: str | None = None  #: of which tasks the load average is, where not of all of the host
    strangers: str | None = None  #: why other processes cannot be seen
    launch_cgroup: str | None = None  #: whether each launch has one
    # the software
    tuner: str | None = None
    python: str | None = None  #: of tuner
    supervisor: str | None = None
    user: str | None = None
    git_revision: str | None = None  #: of the folder that tuner ran in; ``+``: with changes
    workers: WorkerFacts = field(default_factory=WorkerFacts)
    # how the study was begun
    made_by: str | None = None  #: the command, where not the usual one
    config_file: str | None = None  #: as it was typed
    is_command_typed: bool = _flag("command_typed")  #: on the command line, in no config
    #: what was typed for the study section over the config's, as JSON, texts by their names; None: in older
    #: files
    study_typed: str | None = None
    is_quick: bool = _flag("quick", "true")  #: a few layouts for all
    is_fleet: bool = _flag("fleet")  #: measured on several hosts, or on one of a fleet
    simulated: str | None = None  #: the name of the profile; None: a service ran
    simulated_stream: str | None = None  #: names random streams, in addition to the seed
    has_first_look: bool = _flag("first_look")  #: it begins with one
    may_grow: bool = _flag("grid_grows")  #: the layouts are those of a grid, and scouts are launched first
    # of a check
    check_of: str | None = None  #: the file of the checked study
    check_of_created: str | None = None  #: when that was begun
    check_current: str | None = None  #: the layout in use; "": none was named
    # what came out before the first block, or during the study
    grid_grew: str | None = None  #: `Growth` as JSON; None: scouts were not launched
    clients_found: str | None = None  #: `ClientSearchResult` as JSON; None: there was no search
    #: what layouts ran in addition to their threads, as JSON, by the layout's text
    inner_threads: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)  #: facts that this tuner has no name for

    @classmethod
    def from_mapping(cls, texts: Mapping[str, str]) -> Self:
        """Return the facts that *texts* holds by their names in a study file."""
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
        """Return the facts that are known, by their names in a study file, in the order of these."""
        texts = {name: text for name in _TEXTS if (text := getattr(self, name)) is not None}
        texts |= {key: text for key, (name, text) in _FLAGS.items() if getattr(self, name)}
        texts |= {f"{_OF_LAYOUT}{layout}": text for layout, text in self.inner_threads.items()}
        return dict(sorted({**texts, **self.workers.texts, **self.others}.items()))

    def updated(self, newer: Provenance) -> Self:
        """Return these facts with those that *newer* knows in their places."""
        return self.from_mapping({**self.to_mapping(), **newer.to_mapping()})

    @property
    def command(self) -> str:
        """The command that made the study."""
        return USUAL_COMMAND if self.made_by is None else self.made_by


_TEXTS = tuple(one.name for one in fields(Provenance) if one.default is None)
#: key in a study file -> the field, and the text that stands for True
_FLAGS = {one.metadata["key"]: (one.name, one.metadata["text"]) for one in fields(Provenance) if one.metadata}
