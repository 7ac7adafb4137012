"""What every test gets: a marker that its processes inherit, and a check that nothing is left behind."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from . import printed, wording
from .costs import Cost, CostMeter, kept_costs

if TYPE_CHECKING:
    from .postgres_server import PostgresServer
    from .redis_server import RedisServer

ROOT = Path(__file__).resolve().parent.parent
MARKER = "TUNER_TEST_SESSION"
DEADLINE_S = 30.0
#: where make looks for tests that start processes: looking everywhere takes each worker 3 s more
WITH_PROCESSES = ("contract", "e2e", "integration", "services")
CHEAP = Cost(0.0, 0.0)  #: of a test that is not in costs.tsv
THERE_ONLY = ("integration", "services", "alone")  #: markers of such tests

# The same examples every time: no run is red by luck, and one that is red can be repeated.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that renew golden/ and costs.tsv."""
    parser.addoption("--record-costs", action="store_true", help="write what the tests cost into costs.tsv")
    parser.addoption("--refreeze", action="store_true", help="write frozen behaviour into golden/frozen/")
    parser.addoption(
        "--reword", action="store_true", help="write the words of failed comparisons into golden/wording/"
    )


def pytest_assertrepr_compare(
    config: pytest.Config, op: str, left: object, right: object
) -> list[str] | None:
    """Name the key and the file of a text that is not as it was."""
    how = {"reword": config.getoption("reword")}
    return printed.explain_failure(op, left, right, **how) or wording.explain_failure(op, left, right, **how)


def pytest_configure(config: pytest.Config) -> None:
    """Measure the tests, and restore signals to what they are at a terminal.

    nohup and a shell's background ignore some signals; each process that a test starts would inherit that.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
    config.pluginmanager.register(CostMeter(), "costs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are not cheap, and begin with those that take longest."""
    known = kept_costs()
    for item in items:
        where = item.path.relative_to(ROOT / "tests").parts[0]
        marked = [name for name in THERE_ONLY if item.get_closest_marker(name) is not None]
        if marked and where not in WITH_PROCESSES:
            raise pytest.UsageError(
                f"{item.nodeid}, marked {', '.join(marked)}, belongs in {', '.join(WITH_PROCESSES)}"
            )
        if item.nodeid in known:
            item.add_marker("costly")
    items.sort(
        key=lambda item: known.get(item.nodeid, CHEAP).wall_s, reverse=True
    )  # those alike keep their order
    items[:] = _dealt(items, known, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _dealt(items: list[pytest.Item], known: Mapping[str, Cost], n_processes: int) -> list[pytest.Item]:
    """Reorder *items* so that each process gets as many costly tests as the others.

    pytest-xdist gives each process a stretch of the list to begin with. With the costly tests all at the
    front, one process would get most of them.
    """
    n_costly = sum(item.nodeid in known for item in items)
    others, dealt = items[n_costly:], list[pytest.Item]()
    for n in range(n_processes):
        n_more = (len(items) - len(dealt)) // (n_processes - n)
        stretch = items[n:n_costly:n_processes]
        n_others = max(0, n_more - len(stretch))
        dealt += stretch + others[:n_others]
        del others[:n_others]
    return dealt


@pytest.fixture(scope="session", autouse=True)
def _box_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A box lock of this process's own: neighbours (pytest -n) and a study on this box do not wait for it."""
    before = os.environ.get("TUNER_LOCK")
    os.environ["TUNER_LOCK"] = str(tmp_path_factory.getbasetemp() / "box-lock")
    yield
    if before is None:
        del os.environ["TUNER_LOCK"]
    else:
        os.environ["TUNER_LOCK"] = before


@pytest.fixture(scope="session")
def services_venv() -> Path:
    """The virtual environment of real services, as requirements/services.txt locks them: bin/celery, ...

    It is TUNER_SERVICES_VENV, else .venv-services; without one the test skips at home and fails in CI.
    """
    named = os.environ.get("TUNER_SERVICES_VENV")
    folder = Path(named) if named else ROOT / ".venv-services"
    complete = (folder / "bin" / "python").exists() if named else (folder / ".installed").exists()
    if not complete:
        reason = f"no services in {folder}: make services"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI must test with them")
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of measured data that lies beside a checkout; tests that need it skip without it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside this checkout")
    return folder


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A Redis of this test's own."""
    from .redis_server import running_redis  # 0.3 s that only the tests with a Redis need

    with running_redis() as server:
        yield server


@pytest.fixture
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this test's own."""
    from .postgres_server import running_postgres

    with running_postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Integration tests inherit a marker; whoever still carries it afterwards fails the test."""
    tmp_path_factory.getbasetemp()  # made now: not in the folder that goes away with this test
    if request.node.get_closest_marker("integration") is None:
        yield
        return
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARKER, value)
    with tempfile.TemporaryDirectory(prefix="tn-") as folder:  # short: unix sockets live below it
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setenv("TUNER_LOCK", str(Path(folder) / "lock"))
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        left = _wait_until_gone(value)
        assert not left, f"processes left behind: {left}"
        leftovers = [str(path) for path in Path(folder).rglob("*") if path.is_socket()]
        assert not leftovers, f"sockets left behind: {leftovers}"


def _wait_until_gone(value: str) -> dict[int, str]:
    deadline = time.monotonic() + DEADLINE_S
    while left := _carrying(value):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.05)
    return {}


def _carrying(value: str) -> dict[int, str]:
    """pid -> command line of every living process with the marker, this one left out."""
    wanted = f"{MARKER}={value}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
        except OSError:
            continue  # ended meanwhile, or not ours to read
    return found
