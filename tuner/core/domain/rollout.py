"""A layout in production: the commands to start, their number and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tuner.core.defaults import STOP_WAIT_S
from tuner.core.domain.layout import Layout

#: stands in commands and environments for the number (0, 1, ...) of a program where a service has several:
#: each format has its own words for it. No command line and no variable can hold it.
PROCESS = "\0"


@dataclass(frozen=True, slots=True)
class Rollout:
    """A service in a layout, without the parts needed only for measuring. Texts may hold `PROCESS`."""

    service: str  #: the name that the study has for it
    kind: str  #: the record that it is one of; "script" or "crash-processor" where there is none
    layout: Layout
    command: tuple[str, ...]  #: of each program, whole
    own_command: tuple[str, ...]  #: without any option that says the layout, the user's own included
    environment: Mapping[str, str]  #: to be added to the service's own
    options: Mapping[str, str]  #: the layout as options of the command; empty: there are none known
    is_command_needed: bool  #: False: the environment alone says the layout, the command stays as it is
    n_programs: int  #: how often it is started; 1: it starts its workers itself
    overriding: tuple[str, ...] = ()  #: options of the command that go before such an environment, or a file
    names: Mapping[str, str] = field(default_factory=dict)  #: environment that tells several on one box apart
    stop_signal: str = "TERM"
    stop_wait_s: float = STOP_WAIT_S  #: then KILL
    stop_as_group: bool = False
    serves_http: bool = False
    directory: str | None = None
    user: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)  #: of resources, by name: nofile, as ...
    hidden: tuple[str, ...] = ()  #: variables that had values which studies do not keep
    remarks: tuple[str, ...] = ()  #: what whoever applies it has to know, a sentence each
    provenance: tuple[str, ...] = ()  #: where it comes from, a sentence each
    #: of a program that shares its network with no other (a pod), where those of one host have to differ
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
