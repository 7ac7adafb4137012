"""Program that prints how many tasks the nodes of a Celery service have finished.

tuner runs it in the service's Python. It imports only Celery, nothing of tuner, and runs on Python 3.8. It
reads from stdin one line of JSON with the request, then an empty line for each query. It answers each line
with one line of JSON:

    {"ready": "celery 5.7.0", "others": [NODE]}           answer to the request
    {"done": {NODE: N}, "failed": {NODE: N}, "nodes": k}  answer to a query; "failed" is null if not counted
    {"error": "..."}                                      no count now; a later query may succeed
    {"wrong": "..."}                                      permanent error; the setup has to be corrected

Fields of the request: ``via`` (inspect, events, or check, which only tests the setup), ``nodes``,
``timeout_s``, and ``broker`` (a URL) or ``options`` (of Celery's command line: app, broker, workdir, loader,
config). ``others`` are the nodes that do not belong to the service; if the field is missing, they are the
nodes that answer now, before the service is started. The program ends at the end of its stdin.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
import time
from typing import Any, Iterable

OTHERS_S = 1.0  #: time for nodes that ran before the launch to answer
LEARNING_S = 1.0  #: time after the last answer until the list of nodes is complete
LEAVING_S = 2.0
MOST_NODES = 1000
LONGEST_NAME = 255  #: length of a node's name, which is also the name of its queue
LONGEST = 500  #: length of an error text, in characters
BROKER_VARIABLES = ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL")
#: option -> the variable in which Celery's command line stores it
VARIABLES = {
    "broker": "CELERY_BROKER_URL",
    "loader": "CELERY_LOADER",
    "config": "CELERY_CONFIG_MODULE",
}


class Unready(Exception):
    """There is no count at this moment."""


class Wrong(Exception):
    """There will never be a count."""


def main() -> None:
    """Answer queries until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keep output of the user's code out of the answers
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # the folder of this file
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=read_lines, args=(lines,), daemon=True).start()
    wanted = json.loads(lines.get() or "{}")
    hide = Hiding()
    counter: Any = None
    while True:
        try:
            if counter is None:
                ready = f"celery {version()}"
                app = find_app(wanted)
                hide.passwords_of(app)
                counter = COUNTERS[wanted["via"]](app, wanted)
                counter.start()
                answer = {"ready": ready, "others": sorted(counter.others)}
            else:
                answer = counter.counts()
        except Unready as error:
            answer = {"error": hide(str(error))}
        except Wrong as error:
            answer = {"wrong": hide(str(error))}
        except Exception as error:  # from the broker's client, which raises many kinds
            answer = {"error": hide(error_line(error))}
        answers.write(json.dumps(answer) + "\n")
        if counter is None or counter.is_lost:
            return
        if lines.get() is None:
            counter.close()
            return


def read_lines(lines: queue.Queue[str | None]) -> None:
    """Put every line of stdin into *lines*; at its end, end the program, even if it is blocked."""
    for line in sys.stdin:
        lines.put(line)
    lines.put(None)
    time.sleep(LEAVING_S)
    os._exit(0)


def error_line(error: BaseException) -> str:
    """Return *error* as one line."""
    return f"{type(error).__name__}: {error}"


class Hiding:
    """Removes secrets from texts."""

    def __init__(self) -> None:
        self._passwords: set[str] = set()

    def passwords_of(self, app: Any) -> None:
        """Remember the passwords of the app's brokers."""
        for connection in (app.connection_for_read(), app.connection_for_write()):
            if connection.password:
                self._passwords.add(str(connection.password))

    def __call__(self, text: str) -> str:
        """Return *text* as one line without passwords."""
        for password in self._passwords:
            text = text.replace(password, "<hidden>")
        text = re.sub(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@", r"\1<hidden>@", text)
        return " ".join(text.split())[:LONGEST]


def version() -> str:
    """Return the version of Celery."""
    try:
        import celery
    except ImportError as error:
        raise Wrong(f"{sys.executable} has no Celery: {error}") from error
    return str(celery.__version__)


def find_app(wanted: dict[str, Any]) -> Any:
    """Return an app with the service's broker: the service's app, unless the broker is named."""
    from celery import Celery, current_app
    from celery.app.utils import find_app as find

    if wanted.get("broker"):
        for name in BROKER_VARIABLES:
            os.environ.pop(name, None)  # Celery would prefer these
        return Celery("tuner", broker=wanted["broker"], set_as_current=False)
    options = wanted.get("options") or {}
    if options.get("workdir"):
        os.chdir(options["workdir"])
    for name, variable in VARIABLES.items():
        if options.get(name):
            os.environ[variable] = options[name]
    app = options.get("app") or os.environ.get("APP") or os.environ.get("CELERY_APP")
    if not app:
        return current_app._get_current_object()
    try:
        return find(app)
    except (Exception, SystemExit) as error:
        raise Wrong(f"the app {app} cannot be loaded: {error_line(error)}") from error


class Control:
    """Queries nodes over a connection that is renewed after every failure."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._connection: Any = None
        self._mailbox: Any = None

    def ask(self, command: str, timeout_s: float, nodes: Iterable[str] = ()) -> list[tuple[str, Any]]:
        """Return names and answers of *nodes*; without *nodes*, query all and wait until the timeout."""
        try:
            if self._connection is None:
                self._connection = self._app.connection_for_write()
                self._connection.connect()
                self._mailbox = self._app.control.mailbox(self._connection)
                self._mailbox.producer_pool = None  # its connections would outlive a failure
            if nodes:
                replies = self._mailbox.call([*nodes], command, {}, timeout_s)
            else:
                replies = self._mailbox.multi_call(command, {}, timeout_s)
        except BaseException:
            self.close()
            raise
        return [(name, answer) for reply in replies or () for name, answer in reply.items()]

    def others(self, known: Iterable[str] | None) -> set[str]:
        """Return the nodes that are not the service's: *known*, or all that answer before the service
        starts.
        """
        return set(known) if known is not None else {name for name, _ in self.ask("ping", OTHERS_S)}

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release()


class Inspect:
    """Reads the totals that the nodes keep: tasks that began since the node was started."""

    is_lost = False

    def __init__(self, app: Any, wanted: dict[str, Any]) -> None:
        self._control = Control(app)
        self._n_nodes: int = wanted["nodes"]
        self._timeout_s: float = wanted["timeout_s"]
        self._known = wanted.get("others")
        self.others: set[str] = set()
        self._names: list[str] = []

    def start(self) -> None:
        """Detect nodes that already run."""
        self.others = self._control.others(self._known)

    def counts(self) -> dict[str, Any]:
        """Return the totals of all nodes; Unready if one is missing, because the sum would be wrong."""
        if not self._names:
            reported = self._control.ask("stats", min(LEARNING_S, self._timeout_s))
            reported = [(name, stats) for name, stats in reported if name not in self.others]
            self._names = self._all_of(sorted(name for name, _ in reported))
        else:
            reported = self._control.ask("stats", self._timeout_s, self._names)
            silent = sorted(set(self._names).difference(name for name, _ in reported))
            if silent:
                raise Unready(f"no answer from {', '.join(silent)} in {self._timeout_s:g} s")
        done = {name: total(name, stats) for name, stats in reported}
        return {"done": done, "failed": None, "nodes": len(done)}

    def _all_of(self, names: list[str]) -> list[str]:
        if len(names) > len(set(names)):
            twice = next(name for name in names if names.count(name) > 1)
            raise Wrong(f"two nodes are called {twice}: give each a unique name (-n)")
        if len(names) > self._n_nodes:
            raise Wrong(f"{len(names)} nodes answer, and there should be {self._n_nodes}: {', '.join(names)}")
        if len(names) < self._n_nodes:
            raise Unready(f"{len(names)} of {self._n_nodes} nodes answered")
        return names

    def close(self) -> None:
        """Close the connection."""
        self._control.close()


class Events:
    """Counts the events that nodes send for each task that ends."""

    def __init__(self, app: Any, wanted: dict[str, Any]) -> None:
        self._app = app
        self._known = wanted.get("others")
        self.others: set[str] = set()
        self._done: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._counts = {"task-succeeded": self._done, "task-failed": self._failed}
        self._listens = threading.Event()
        self._problem = ""

    @property
    def is_lost(self) -> bool:
        """Whether events may have been missed."""
        return bool(self._problem)

    def start(self) -> None:
        """Start listening; it listens when this returns."""
        control = Control(self._app)
        self.others = control.others(self._known)
        control.close()
        threading.Thread(target=self._listen, daemon=True).start()
        self._listens.wait()
        self.counts()

    def counts(self) -> dict[str, Any]:
        """Return the counts since listening began, of all nodes that sent events."""
        if self._problem:
            raise Unready(f"events are no longer heard: {self._problem}")
        done, failed = dict(self._done), dict(self._failed)
        return {"done": done, "failed": failed, "nodes": len(set(done) | set(failed))}

    def close(self) -> None:
        """Do nothing: the queue of events ends with the connection."""

    def _listen(self) -> None:
        try:
            with self._app.connection_for_read() as connection:
                connection.connect()
                receiver = self._app.events.Receiver(connection, routing_key="task.#")
                # the receiver's own method fails on invalid events, and adjusts clocks that are not needed
                receiver._receive = self._receive
                receiver.on_decode_error = lambda *_: None
                receiver.on_consume_ready = lambda *_, **__: self._listens.set()
                receiver.capture(limit=None, timeout=None, wakeup=False)
            self._problem = "the connection ended"
        except Exception as error:  # as above
            self._problem = error_line(error)
        self._listens.set()

    def _receive(self, body: Any, _message: Any) -> None:
        """Count an event, or a list of events, and ignore invalid ones."""
        for event in body if isinstance(body, list) else [body]:
            kind, name = (event.get("type"), event.get("hostname")) if isinstance(event, dict) else (0, 0)
            counts = self._counts.get(kind) if isinstance(kind, str) else None
            if counts is None or not isinstance(name, str) or name in self.others or len(name) > LONGEST_NAME:
                continue
            if len(counts) >= MOST_NODES and name not in counts:
                raise ValueError(f"more than {MOST_NODES} nodes reported tasks")
            counts[name] = counts.get(name, 0) + 1


class SetupCheck:
    """Checks the interpreter, its Celery and the app, and counts nothing."""

    is_lost = False
    others: tuple[str, ...] = ()

    def __init__(self, app: Any, wanted: dict[str, Any]) -> None:
        """Ignore both arguments."""

    def start(self) -> None:
        """Do nothing."""

    def counts(self) -> dict[str, Any]:
        """Raise Wrong: a check has no counts."""
        raise Wrong("a check counts nothing")

    def close(self) -> None:
        """Do nothing."""


COUNTERS: dict[str, Any] = {"inspect": Inspect, "events": Events, "check": SetupCheck}


def total(name: str, stats: Any) -> int:
    """Return the total over all kinds of tasks."""
    try:
        return sum(stats["total"].values())
    except (KeyError, TypeError, AttributeError) as error:
        raise Unready(f"{name} answered without a total: {str(stats)[:80]}") from error


if __name__ == "__main__":
    main()
