"""Scripts whose command is not told how many threads a layout has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tuner.app.doctor import spec_of
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.seen_through import check_counter, check_thread_options, mentions
from tuner.config.load import Given
from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.errors import ConfigError

from ..wording import wording

GRID = (Layout(1, 1), Layout(1, 4))


def check(folder: Path, command: str, layouts: Sequence[Layout] = GRID, more: str = "") -> None:
    """See whether a study of a script in *folder* would be refused."""
    (folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: w\n  directory: .\n  command: {command}\n{more}"
    )
    settings = settings_of(folder / "s.yaml", {})
    check_thread_options(settings, spec_of(settings, layouts), layouts)


def test_a_command_that_is_not_told_its_threads_is_refused_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("while True: pass\n")

    with pytest.raises(ConfigError) as caught:
        check(tmp_path, "python3 worker.py --fast")

    assert wording("command-line.has-no-threads", first="1x1", second="1x4") in caught.value.problem
    assert "--threads {threads}" in (caught.value.hint or "")
    assert "--set threads=no" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("python3 worker.py {threads}", ""),
        ("python3 worker.py", "  environment: {N: '{threads}'}\n"),
        ("env TUNER_THREADS={threads} python3 worker.py", ""),
        ("sh -c 'exec worker $TUNER_THREADS'", ""),
        ("python3 worker.py", "  threads: no\n"),
        ("python3 reads.py", ""),
        ("python3 -m package.main", ""),
        ("python3 imports.py", ""),
    ],
)
def test_a_command_that_is_reported_or_whose_files_read_the_variable_is_run(
    command: str, more: str, tmp_path: Path
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "main.py").write_text("from package import pool\n")
    (tmp_path / "package" / "pool.py").write_text("import os\nN = os.environ['TUNER_THREADS']\n")
    if "worker.py" in command:
        (tmp_path / "worker.py").write_text("pass\n")
    else:
        (tmp_path / "reads.py").write_text("import os\nprint(os.environ['TUNER_LAYOUT'])\n")
        (tmp_path / "imports.py").write_text("import reads\n")

    check(tmp_path, command, GRID if "threads: no" not in more else (parse_layout("2x-"),), more)


def test_one_number_of_threads_may_be_the_command_s_own(tmp_path: Path) -> None:
    check(tmp_path, "worker --threads 4", (Layout(1, 4), Layout(2, 4)))


def test_a_known_service_is_reported_by_its_record() -> None:
    settings = settings_of(None, {("service", "command"): Given("--", "arq app.WorkerSettings")})

    check_thread_options(settings, spec_of(settings, GRID), GRID)  # it reads TUNER_THREADS


def test_whether_a_script_seems_to_count_its_items(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("from tuner.probe.counter import open_counter\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "worker.py").write_text("print('item')\n")

    def counts(folder: Path, more: str = "") -> list[bool]:
        (folder / "s.yaml").write_text(
            "service: {kind: script, name: w, directory: ., command: 'python3 worker.py {threads}'"
            + more
            + "}\n"
        )
        settings = settings_of(folder / "s.yaml", {})
        return [seen.is_mentioned for seen in check_counter(settings, spec_of(settings, GRID))]

    assert counts(tmp_path) == [True]
    assert counts(other) == [False]
    assert counts(other, ", probe: {kind: log, pattern: item}") == []  # the log counts


def test_files_that_cannot_be_read_mention_nothing(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_bytes(b"#" * (1 << 20) + b"\nTUNER_THREADS\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)))

    assert not mentions(["large.py", "binary", "missing.py", "x" * 5000, "\0"], tmp_path, "TUNER_THREADS")


def test_a_script_is_read_though_its_program_is_not_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "worker.py").write_text("import lib\n")
    (tmp_path / "z" / "lib.py").write_text('os.environ["TUNER_THREADS"]\n')

    assert mentions(["no-such-program", "z/worker.py"], tmp_path, "TUNER_THREADS")
