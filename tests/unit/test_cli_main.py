from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from tuner.cli import COMMANDS, render_help, run
from tuner.cli.rank import confidence_level
from tuner.core.domain.layout import Layout, divisors_grid, spread_subset

from ..wording import key_of, start_of, wording

pytestmark = pytest.mark.pythons

HEAVY = (
    "pydantic",
    "supervisor",
    "psutil",
    "sqlite3",
    "yaml",
    "rich",
    "typer",
    "tabulate",
    "dask",
    "distributed",
    "cryptography",
)


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            ["gird"],
            "Error: " + wording("command-line.no-such-command", command="gird"),
            wording("command-line.did-you-mean", meant="grid"),
        ),
        (
            ["--hepl"],
            "Error: " + wording("command-line.no-such-option"),
            wording("command-line.did-you-mean", meant="--help"),
        ),
        (
            ["zzz"],
            "Error: " + wording("command-line.no-such-command", command="zzz"),
            wording("command-line.help-lists-commands"),
        ),
        (
            ["grid", "--coers", "3"],
            "Error: " + wording("command-line.no-such-option-of-command"),
            wording("command-line.did-you-mean", meant="--cores"),
        ),
        (
            ["grid", "--seed"],
            "Error: " + wording("command-line.option-requires"),
            wording("command-line.help-lists-options", command="grid"),
        ),
        (
            ["grid", "a", "b"],
            "Error: " + wording("command-line.extra-argument"),
            wording("command-line.help-lists-options", command="grid"),
        ),
        (
            ["rank", "x", "--confidence", "2"],
            "Error: --confidence: ",
            wording("command-line.help-lists-options", command="rank"),
        ),
        (
            ["predict", "x", "--cores", "8x"],
            "Error: " + wording("command-line.whole-number"),
            wording("command-line.help-lists-options", command="predict"),
        ),
        (
            ["rank", "x", "--confidence", "y"],
            "Error: " + wording("command-line.should-be-share"),
            wording("command-line.help-lists-options", command="rank"),
        ),
        (
            ["rank"],
            "Error: " + wording("command-line.missing-argument", name="STUDY"),
            wording("command-line.help-lists-options", command="rank"),
        ),
    ],
    ids=key_of,
)
def test_a_wrong_command_line_is_two_lines_and_exit_code_2(
    arguments: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(arguments)

    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert said in start_of(lines[0])
    assert lines[1:] == [hint]


@pytest.mark.parametrize(
    ("text", "level"), [("80%", 0.8), ("0.95", 0.95), ("99.9%", 0.999), ("50%", 0.5), (" 95 % ", 0.95)]
)
def test_a_level_of_confidence_is_a_share_as_every_other_one(text: str, level: float) -> None:
    assert confidence_level(text) == level


@pytest.mark.parametrize("text", ["100%", "49.9%", "95", "1e-1", "nan", "", "95%%"])
def test_what_is_no_level_of_confidence_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        confidence_level(text)
    is_share = text in ("100%", "49.9%", "95")
    result = wording("rank.confidence-from-to") if is_share else wording("rank.confidence-no-share")
    assert result in str(caught.value)


def test_init_leaves_a_file_that_is_there_and_says_how_to_get_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "mine.yaml"
    there.write_text("mine")

    assert run(["init", "-o", str(there), "--", "python3", "w.py"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [wording("command-line.name-another-file")]
    assert there.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        (["--", "celery", "-A", "jobs", "-b", "redis://:hunter22@127.0.0.1/0", "worker"], 0o600),
        (["--set", "url=redis://:hunter22@127.0.0.1/0", "--", "rq", "worker", "jobs"], 0o600),
        (["--", "python3", "w.py", "--token", "hunter22"], 0o600),
        (["--", "python3", "w.py"], 0o644),
    ],
)
def test_init_writes_a_secret_for_its_owner_only(
    tmp_path: Path, umask_022: None, capsys: pytest.CaptureFixture[str], arguments: list[str], mode: int
) -> None:
    file = tmp_path / "s.yaml"

    assert run(["init", "-o", str(file), *arguments]) == 0
    assert file.stat().st_mode & 0o777 == mode
    result = wording("command-line.readable-by-you-only") in capsys.readouterr().err
    assert result == (mode == 0o600)


@pytest.fixture
def umask_022() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def python_in_a_removed_folder(
    tmp_path: Path, code: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run *code* where the current folder no longer exists, in a process that imports nothing from there.

    pytest's workers would import from it, which CPython 3.13.0 ends with SystemError.
    """
    gone = tmp_path / "gone"
    gone.mkdir()
    remove_and_run = [
        "sh",
        "-c",
        'rmdir "$PWD" && exec "$0" "$@"',
        sys.executable,
        "-P",
        "-c",
        code,
        *arguments,
    ]
    return subprocess.run(remove_and_run, cwd=gone, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [["grid", "--", "python3", "w.py"], ["plan", "--", "python3", "w.py"], ["init", "--", "python3", "w.py"]],
    ids=lambda arguments: arguments[0],
)
def test_a_current_folder_that_was_removed_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    ended = python_in_a_removed_folder(tmp_path, "from tuner.cli import main; main()", *arguments)

    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "Error: " + wording("command-line.no-current-folder"),
        wording("command-line.change-folder"),
    ]


def test_a_config_with_its_whole_path_needs_no_current_folder(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text("service: {kind: script, name: w, command: [sleep, '9'], directory: .}\n")

    code = (
        "import sys, pathlib; from tuner.bootstrap.configs import settings_of;"
        "print(settings_of(pathlib.Path(sys.argv[1]), {}).service.directory)"
    )
    ended = python_in_a_removed_folder(tmp_path, code, str(config))

    assert (ended.stdout, ended.stderr) == (f"{tmp_path}\n", "")


def test_init_takes_a_dash_for_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(["init", "-o", "-", "--", "python3", "w.py"]) == 0
    assert "command: [python3, w.py]" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_first_page_names_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--help"])

    page = capsys.readouterr().out
    assert code == 0
    assert page == render_help()
    for command in COMMANDS:
        group = page.partition(f"\n{command.panel}:\n")[2].partition("\n\n")[0]
        assert f"  {command.name} " in group
    assert max(map(len, page.splitlines())) <= 80  # of a terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_is_folded_to_the_terminal_and_goes_into_a_pipe_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["services"]) == 0
    piped = capsys.readouterr().out
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "100")

    assert run(["services"]) == 0
    shown = terminal.getvalue()
    assert max(map(len, piped.splitlines())) > 100
    assert max(map(len, shown.splitlines())) <= 100
    assert set(piped.split()) == set(shown.split())


def test_nothing_typed_shows_the_first_page_and_counts_as_wrong_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 2
    assert capsys.readouterr().out == render_help()


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tuner ")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_its_own_page(command, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command.name, "--help"]) == 0
    assert f"tuner {command.name}" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_page_is_readable_in_80_columns_and_has_an_example(
    command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    run([command.name, "--help"])

    prose = capsys.readouterr().out.partition("╭")[0].splitlines()
    assert max(map(len, prose)) <= 80
    assert any(line.startswith(f" Example: tuner {command.name} ") for line in prose)
    for line, after in itertools.pairwise(prose):  # a line that ends early is the last one of its paragraph
        assert not after.strip() or len(line.rstrip()) + len(after.split()[0]) >= 78 or not line.strip()


def test_the_formats_are_listed_without_a_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--format", "list"]) == 0
    assert {"markdown", "csv", "json", "html", "rst", "jira"} <= set(capsys.readouterr().out.split())


def test_the_first_page_imports_nothing_heavy() -> None:
    script = (
        "import json, sys; from tuner.cli import run; run(['--help']);"
        f"print(json.dumps([name for name in {HEAVY} if name in sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert json.loads(done.stderr) == []


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 7, 24, 64, 96])
def test_a_first_look_takes_five_layouts_at_most_with_both_extremes(cores: int) -> None:
    grid = divisors_grid(cores)

    chosen = spread_subset(grid, 5)

    assert len(chosen) == min(5, len(grid))
    assert set(chosen) <= set(grid)
    assert chosen == sorted(chosen)
    assert max(layout.processes for layout in chosen) == cores
    assert Layout(1, 2 * cores) in chosen or cores == 1


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_lead_nowhere(closed: str, tmp_path: Path) -> None:
    script = (
        "from tuner.cli import main; main(['--version']); file = open('study', 'w'); assert file.fileno() > 2"
    )
    shell = f'exec "$0" -c "$1" {closed}'

    ended = subprocess.run(
        ["sh", "-c", shell, sys.executable, script], cwd=tmp_path, capture_output=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_the_help_of_grid_begins_with_the_ten_options_that_most_people_need(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (grid,) = (command for command in COMMANDS if command.name == "grid")
    options = [one for one in typer.main.get_command(grid.load()).params if one.param_type_name == "option"]
    panels = [getattr(one, "rich_help_panel", None) for one in options]

    run(["grid", "--help"])

    titles = re.findall(r"^╭─ ([\w :]+) ─", capsys.readouterr().out, re.MULTILINE)
    assert titles[:4] == ["Arguments", "Options", "Options that most people need", "More options: layouts"]
    assert panels.count("Options that most people need") == 10


def test_help_prints_what_its_sources_have_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    """rich takes square brackets for markup, and prints nothing for `[default: 3]`."""
    for command in COMMANDS:
        app = typer.main.get_command(command.load())
        texts = [getattr(option, "help", None) or "" for option in getattr(app, "params", ())]
        assert [text for text in texts if "[" in text] == []
