"""A layout in production: the commands to start, their number and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tuner.core.defaults import STOP_WAIT_S
from tuner.core.domain.layout import Layout

#: Placeholder in commands and environments for the number (0, 1, ...) of a program, if a service has several;
#: each output format replaces it with its own syntax. No command line and no variable can contain this
#: character.
PROCESS = "\0"


@dataclass(frozen=True, slots=True)
class Rollout:
    """A service in a layout, without the parts needed only for measuring. Texts may hold `PROCESS`."""

    service: str  #: name of the service in the study
    kind: str  #: name of its built-in record; "script" or "crash-processor" without one
    layout: Layout
    command: tuple[str, ...]  #: complete command of each program
    own_command: tuple[str, ...]  #: the user's command without any options that set the layout
    environment: Mapping[str, str]  #: variables to add to the service's environment
    options: Mapping[str, str]  #: the layout as options of the command; empty: no such options are known
    is_command_needed: bool  #: False: the environment sets the layout, and the command stays unchanged
    n_programs: int  #: number of starts of the command; 1: it starts its workers itself
    overriding: tuple[str, ...] = ()  #: options of the command that override such an environment, or a file
    #: variables that distinguish several services on one host
    names: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    stop_wait_s: float = STOP_WAIT_S  #: seconds from the stop signal to KILL
    stop_as_group: bool = False
    serves_http: bool = False
    directory: str | None = None
    user: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)  #: resource limits by name: nofile, as, ...
    hidden: tuple[str, ...] = ()  #: variables whose values the study does not store
    remarks: tuple[str, ...] = ()  #: remarks for the user, one sentence each
    provenance: tuple[str, ...] = ()  #: origin of the layout, one sentence each
    #: command of a program that shares its network with no other (in a pod), if the commands on one host must
    #: differ; None: *command*
    alone_command: tuple[str, ...] | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether the command, or a variable that is not only for names, contains a program's number."""
        return has_number([*self.command, *(self.environment[name] for name in self.numbered_variables)])

    @property
    def numbered_variables(self) -> tuple[str, ...]:
        """The variables that contain a program's number, except tuner's own, which are optional."""
        return tuple(
            name for name, value in self.environment.items() if PROCESS in value and name != "TUNER_PROCESS"
        )

    @property
    def unnumbered_environment(self) -> dict[str, str]:
        """The environment without variables that contain a program's number."""
        return {name: value for name, value in self.environment.items() if PROCESS not in value}

    @property
    def stop_wait_whole_s(self) -> int:
        """``stop_wait_s`` rounded up to whole seconds, at least 1, because some formats have no fractions."""
        return max(1, -int(-self.stop_wait_s // 1))


def has_number(texts: Iterable[str]) -> bool:
    """Return whether one of *texts* contains a program's number."""
    return any(PROCESS in text for text in texts)
