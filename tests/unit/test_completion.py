from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cli import COMMANDS, run
from tuner.cli.completion import SCRIPTS, SHELLS, candidates
from tuner.core.errors import TunerError

from ..wording import wording

pytestmark = pytest.mark.pythons

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "bench" / "studies" / "gunicorn-2-cores-busy.tuner.db"


def words(line: str) -> list[str]:
    return [one.word for one in candidates(line)[1]]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["--complete", *arguments]) == 0
    return capsys.readouterr().out


def test_commands_come_with_what_they_are_for() -> None:
    typed, found = candidates("tuner ex")

    assert typed == "ex"
    assert {one.word for one in found} == {one.name for one in COMMANDS if one.name.startswith("ex")}
    assert all(one.about for one in found)


def test_a_line_that_ends_with_a_blank_begins_a_new_word() -> None:
    assert words("tuner ") == [command.name for command in COMMANDS]
    assert words("tuner rank") == ["rank"]


def test_options_are_those_of_the_command_on_the_line() -> None:
    assert {"--cores", "--confidence", "--command"} <= set(words("tuner grid --co"))
    assert words("tuner rank --cu") == ["--current"]


def test_an_option_offers_the_words_it_takes() -> None:
    assert words("tuner grid --strategy ") == ["race", "all"]
    assert words("tuner grid study.yaml --kind s") == ["strict"]
    assert words("tuner grid --grid=d") == ["--grid=divisors"]
    assert "markdown" in words("tuner export s.tuner.db --format m")
    assert words("tuner grid --service gu") == ["gunicorn"]
    assert words("tuner services s") == ["show"]
    assert words("tuner services show gu") == ["gunicorn"]


def test_the_layout_in_use_is_one_of_the_study_on_the_line() -> None:
    found = words(f"tuner rank {STUDY} --current 2x")

    assert found
    assert all(word.startswith("2x") for word in found)
    assert words("tuner check missing.tuner.db --foreign-limit ") == []


@pytest.mark.parametrize(
    "line",
    [
        "tuner grid -- gunicorn --wo",  # another program's
        "tuner rank ",  # a file: the shell's to find
        "tuner nothing --",
        "tuner rank --json stu",
    ],
)
def test_what_is_not_ours_to_know_is_left_to_the_shell(line: str) -> None:
    assert words(line) == []


@pytest.mark.parametrize(
    "line", ["", "tuner 'gr", "tuner rank 'a b", "tuner rank missing.tuner.db --current ", "tuner a\\"]
)
def test_a_tab_never_shows_an_error(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        answer(capsys, shell, line, " @=:")

    assert capsys.readouterr().err == ""


def test_bash_gets_what_stands_behind_its_last_break(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "bash", "tuner grid --grid=d", " \t\n=@:") == "divisors\n"
    (first, *_) = answer(capsys, "bash", f"tuner rank {STUDY} --current 2x2@", " \t\n=@:").splitlines()
    assert "@" not in first


def test_zsh_and_fish_get_what_a_word_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    summary = next(command.summary for command in COMMANDS if command.name == "rank")

    assert answer(capsys, "zsh", "tuner ran", "") == f"rank:{summary}\n"
    assert answer(capsys, "fish", "tuner ran", "") == f"rank\t{summary}\n"


def test_command_names_are_completed_without_importing_any_of_them() -> None:
    script = (
        "import sys; from tuner.cli import run; run(['--complete', 'bash', 'tuner r', '']);"
        "late = {'typer', 'click', 'rich', 'tuner.app', 'tuner.bootstrap', 'tuner.cli.rank'};"
        "print(sorted(late & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert "rank" in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_installing_twice_is_installing_once(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for start in (".bashrc", ".zshrc"):
        (tmp_path / start).write_text("alias ll='ls -l'")

    assert [run(["--install-completion", shell]) for _ in range(2)] == [0, 0]

    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_text() == SCRIPTS[shell]]
    starts = [(tmp_path / start).read_text() for start in (".bashrc", ".zshrc")]
    assert len(written) == 1
    assert all(text.startswith("alias ll='ls -l'") for text in starts)
    assert sum(len(text.splitlines()) - 1 for text in starts) == (0 if shell == "fish" else 1)
    assert str(written[0]) in capsys.readouterr().out


def test_a_shell_that_is_not_known_is_reported_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", "tcsh"]) == TunerError.exit_code
    assert capsys.readouterr().err.splitlines() == [
        wording("command-line.no-completion-for-shell"),
        wording("command-line.one-of-known-shells"),
    ]


def test_the_script_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--show-completion", "fish"]) == 0
    assert capsys.readouterr().out == SCRIPTS["fish"]
