"""Settings shared by all kinds of services: user, directory, environment, how to stop, and similar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.core.defaults import STOP_WAIT_S
from tuner.core.domain.service import Gate, Programs, ServiceSpec, Workers


@dataclass(frozen=True, slots=True)
class Running:
    """Settings of a running service of any kind; the fields are those of ``ServiceSpec``."""

    user: str | None = None
    directory: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    stop_wait_s: float = STOP_WAIT_S
    stop_as_group: bool = False
    max_extra_threads: int | None = None  #: None: the default of the kind of service
    limits: Mapping[str, int] = field(default_factory=dict)
    programs: Programs = "each"
    workers: Workers = "programs"
    event_loop: bool = False
    probe_fields: tuple[str, ...] = ()
    is_known: bool = False
    worker_pid: str = ""

    def spec(
        self, name: str, command: tuple[str, ...], *, max_extra_threads: int | None = None
    ) -> ServiceSpec:
        """Return the service *name*; the user's *max_extra_threads* takes precedence over the kind's."""
        own = self.max_extra_threads
        return ServiceSpec(
            name=name,
            command=command,
            environment=self.environment,
            directory=self.directory,
            user=self.user,
            stop_signal=self.stop_signal,
            stop_wait_s=self.stop_wait_s,
            stop_as_group=self.stop_as_group,
            max_extra_threads=max_extra_threads if own is None else own,
            limits=self.limits,
            programs=self.programs,
            workers=self.workers,
            event_loop=self.event_loop,
            probe_fields=self.probe_fields,
            is_known=self.is_known,
            worker_pid=self.worker_pid,
        )


def escape_fields(text: str) -> str:
    """Return *text* escaped, so that filling in a command's fields leaves it unchanged."""
    return text.replace("{", "{{").replace("}", "}}")


# Service specification of a user's own command, which tuner runs unchanged.


GATE: Gate = "none"
GATE_REASON = "tuner cannot detect whether this service may be paused. If it may, set service.gate to freeze."


def script(name: str, command: tuple[str, ...], running: Running) -> ServiceSpec:
    """Return the service; too many OS threads are detected only if the user limits the extra ones."""
    return running.spec(name, command)
