"""What a host, and what feeds a service, let a grid grow to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.adapters.feeders.http import HttpFeeder
from tuner.adapters.proc.cores import free_memory_bytes
from tuner.bootstrap.parts.services import StudyName, service_of
from tuner.bootstrap.room import refusing
from tuner.config.load import load_settings
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import ClientSearchResult, TriedClients
from tuner.doctor.room import LimitsSeen, TaskLimit, sum_needs, too_large

from ..wording import wording

MIB = 1024.0**2


def box(folder: Path, groups: str, **files: str) -> dict[str, Path]:
    """A host with 1000 MiB available, and cgroups with such files (``a__memory.max`` is a/memory.max)."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "meminfo").write_text("MemTotal: 9999999 kB\nMemAvailable: 1024000 kB\n")
    (folder / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        path = folder / "cgroup" / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "cgroup").mkdir(exist_ok=True)
    return {"proc": folder / "proc", "cgroup": folder / "cgroup"}


def test_four_fifths_of_what_the_host_has_left_may_be_used(tmp_path: Path) -> None:
    assert free_memory_bytes(**box(tmp_path, "0::/\n")) == 800 * MIB


def test_a_cgroup_above_leaves_less_and_its_idle_files_count_as_free(tmp_path: Path) -> None:
    files = {
        "a__memory-max": "104857600",
        "a__memory-current": "94371840",
        "a__memory-stat": "anon 5\ninactive_file 41943040\n",
        "a__b__memory-max": "max",
        "a__b__memory-current": "1",
    }

    assert free_memory_bytes(**box(tmp_path, "0::/a/b\n", **files)) == pytest.approx(0.8 * 50 * MIB)


def test_a_cgroup_of_version_1_without_a_limit_leaves_all(tmp_path: Path) -> None:
    files = {
        "memory__a__memory-limit_in_bytes": "9223372036854771712",
        "memory__a__memory-usage_in_bytes": "500000000",
    }

    assert free_memory_bytes(**box(tmp_path, "4:memory:/a\n", **files)) == 800 * MIB


def test_a_host_that_tells_nothing_is_not_known(tmp_path: Path) -> None:
    assert free_memory_bytes(proc=tmp_path, cgroup=tmp_path) is None


def need_of(layout: Layout, of_generator: int = 0) -> str | None:
    need = sum_needs(
        [layout], extra_threads=0, has_children=False, of_supervisord=20, of_generator=of_generator
    )
    return too_large(need, LimitsSeen(1024, 4096, (TaskLimit("ulimit -u", 1500, 400),)))


def test_processes_threads_files_and_connections_bound_a_layout() -> None:
    assert need_of(Layout(4, 128)) is None
    assert "open files" in str(need_of(Layout(1, 400)))
    assert "ulimit -u" in str(need_of(Layout(64, 32)))
    assert "connections" in str(need_of(Layout(4, 64), of_generator=5000))


def refused_by(
    folder: Path, service: str, found: ClientSearchResult | None = None
) -> Callable[[Layout], str | None]:
    (folder / "s.yaml").write_text(f"service:\n{service}study: {{cores: 2}}\n")
    settings = load_settings(folder / "s.yaml", {})
    layouts = (Layout(2, 2), Layout(1, 4))
    spec, feeder = service_of(
        settings, layouts, StudyName("", ""), Path("/nowhere"), lambda _slug, _text: None
    )
    if found is not None:
        assert isinstance(feeder, HttpFeeder)
        feeder.use_found(found)
    return refusing(settings, spec, layouts, feeder)


HTTP = (
    "  kind: script\n  name: web\n  command: [python3, web.py, '{threads}']\n"
    "  probe: {kind: generator}\n"
    "  feeder: {kind: http, url: 'http://127.0.0.1:1/', clients: 8}\n"
)


def test_clients_that_were_found_grow_with_the_layout_up_to_the_most_that_are_tried(tmp_path: Path) -> None:
    found = ClientSearchResult(8, "2x2", (TriedClients(8, 20.0), TriedClients(16, 20.0)), saturates=True)
    refuses = refused_by(tmp_path, HTTP, found)

    assert refuses(Layout(2, 4)) is None
    assert refuses(Layout(2, 256)) is None
    assert refuses(Layout(2, 258)) == wording("grid.grows-beyond-most-clients")


def test_a_layout_without_two_clients_a_thread_is_refused(tmp_path: Path) -> None:
    refuses = refused_by(tmp_path, HTTP)

    assert refuses(Layout(2, 2)) is None
    assert refuses(Layout(2, 4)) == wording("grid.grows-beyond-clients")  # one a thread starves some of them


def test_layouts_that_would_empty_the_spool_are_refused(tmp_path: Path) -> None:
    refuses = refused_by(tmp_path, "  kind: crash-processor\n")

    assert refuses(Layout(2, 2)) is None
    assert "service.items" in str(refuses(Layout(8, 64)))
