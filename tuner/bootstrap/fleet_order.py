"""Carrying out an order on a host of a fleet: one launch, in its own process or simulated."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.domain.fleet import Ended, Lost, News, Order, Refused, Warned
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.errors import TunerError

if TYPE_CHECKING:
    from tuner.adapters.fleet.box_plugin import Making
    from tuner.adapters.fleet.frames import Frame
    from tuner.adapters.fleet.launch_process import Lifeline
    from tuner.config.settings import Settings


WAITS_S = 600.0  #: longest wait for the lock of a host that another launch or study uses


@dataclass(frozen=True, slots=True)
class FleetOrder:
    """An order, with all data that its host needs."""

    order: Order
    study: StudyRecord
    settings: Settings | None  #: with secrets; None: the study is simulated
    name: str  #: name of the study for the host's lock
    at_wall_s: float  #: the coordinator's wall time, which is simulated time in a simulated study
    report_every_s: float  #: time between two progress reports of the launch


def making_of(asked: bytes) -> Making:
    """Start the launch of *asked*, a pickled `FleetOrder`, which the rest of the host's worker never
    reads."""
    from tuner.adapters.fleet.launch_process import LaunchProcess, own_python

    order: FleetOrder = pickle.loads(asked)
    if is_simulated(order.study):
        return _Simulated(order)
    return LaunchProcess(own_python(__name__), asked)


def provenance_of(asked: bytes) -> dict[str, str]:
    """Return facts about this host and the workers' interpreters; *asked*: pickled settings and cores."""
    from tuner.bootstrap.parts.provenance import collect_provenance

    settings, cores = pickle.loads(asked)
    return collect_provenance(settings, settings.layouts_for(cores), cores).to_mapping()


def main() -> None:
    """Make the launch read from standard input; see `Lifeline` for its end."""
    from tuner.adapters.fleet.launch_process import Lifeline
    from tuner.adapters.processes.signals import stopping_by_signal

    line = Lifeline()
    with stopping_by_signal(at_once=True):
        try:
            asked: FleetOrder = line.order()
            line.watch()
            _make(asked, line)
        except EOFError:
            sys.exit("The worker of this host ended before it sent the measurement settings.")
        except KeyboardInterrupt:
            sys.exit(f"A launch was stopped: {line.ended or 'it was asked for'}.")


def _make(asked: FleetOrder, line: Lifeline) -> None:
    from tuner.adapters.clock import SystemClock
    from tuner.bootstrap.wire import this_box
    from tuner.study.fleet.remote_launch import make_order

    order, clock = asked.order, SystemClock()
    last: list[Ended] = []

    def send(news: News) -> None:
        if isinstance(news, Ended):
            last.append(news)  # sent once the host is free
        else:
            line.send(clock.wall_s(), news)

    def warn(slug: str, text: str) -> None:
        send(Warned(order.place.box, slug, text))

    assert asked.settings is not None
    try:
        with this_box(
            asked.settings, asked.study, asked.name, warn, waits_s=WAITS_S, keeps_file=False
        ) as box:
            make_order(
                order,
                asked.study,
                replace(box, name=order.place.box),
                send,
                line,
                report_every_s=asked.report_every_s,
            )
    except TunerError as error:
        is_final = error.exit_code == 2
        send(Refused(order.id, error.problem, error.hint) if is_final else Lost(order.id, error.problem))
    for ended in last:
        line.send(clock.wall_s(), ended)


class _Simulated:
    """A launch on a simulated host with the worker's name; its clock begins at the coordinator's time."""

    def __init__(self, asked: FleetOrder) -> None:
        self._asked = asked

    def frames(self) -> Iterator[Frame]:
        """Run the launch, and yield its events with simulated times."""
        from tuner.adapters.fleet.frames import Frame, pack_news
        from tuner.adapters.virtual.profile import virtual_box_of
        from tuner.study.fleet.remote_launch import make_order

        asked, found = self._asked, list[Frame]()
        box = virtual_box_of(asked.study, asked.order.place.box, asked.at_wall_s)

        def send(news: News) -> None:
            found.append(Frame(box.clock.wall_s(), pack_news(news)))

        make_order(asked.order, asked.study, box, send, self, report_every_s=None)
        yield from found

    def requested(self) -> bool:
        """Return False, because a simulated launch takes no time to finish."""
        return False

    def finish(self) -> None:
        """It ends at once."""

    def end(self, why: str | None = None) -> None:
        """It ends at once."""

    def problem(self) -> str | None:
        """Return None: its events include all problems."""
        return None


if __name__ == "__main__":
    main()
