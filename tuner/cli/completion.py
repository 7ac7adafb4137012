"""TAB completion in bash, zsh and fish: commands, options, values, layouts of a study.

The shell hands over the line up to the cursor (``tuner --complete SHELL LINE``) and gets a candidate a line.
None means that the shell completes as it does without us: files. Only the module of the command on the line
is imported, and none while the command itself is being typed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tuner.cli import ALONE, COMMANDS, Command
from tuner.core.errors import ConfigError

SHELLS = ("bash", "zsh", "fish")

#: shell -> the script that calls tuner for completions
SCRIPTS = {
    "bash": """\
# TAB for tuner; needs bash 4 or later.
_tuner_completion() {
    mapfile -t COMPREPLY < <("$1" --complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o default -F _tuner_completion tuner
""",
    "zsh": """\
#compdef tuner
_tuner() {
    local -a found
    found=("${(@f)$("${words[1]}" --complete zsh "${(j: :)${(@)words[1,CURRENT]}}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then _describe tuner found; else _files; fi
}
if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then _tuner "$@"; else compdef _tuner tuner; fi
""",
    "fish": """\
# TAB for tuner
function __tuner_completion
    set -l found (tuner --complete fish (commandline -cp | string collect) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command tuner --no-files --arguments '(__tuner_completion)'
""",
}


class Candidate(NamedTuple):
    """A possible completion of a word."""

    word: str
    about: str = ""  #: description of one line; empty: the word needs none


def completion(asked: str, arguments: Sequence[str]) -> int:
    """Run the option *asked*: ``--complete``, ``--show-completion`` or ``--install-completion``.

    Raises:
        ConfigError: the shell is unknown, or its files cannot be written.
    """
    if asked == "--complete":
        shell, line, breaks = (*arguments, "", "", "")[:3]
        sys.stdout.write(_answer(shell, line, breaks))
        return 0
    if len(arguments) > 1:
        raise ConfigError(
            f"{asked}: expected one shell, not {len(arguments)}", hint=f"Example: tuner {asked} bash"
        )
    shell = _shell(asked, arguments[0] if arguments else None)
    if asked == "--show-completion":
        sys.stdout.write(SCRIPTS[shell])
    else:
        for line in _install(shell):
            sys.stdout.write(f"{line}\n")
    return 0


def candidates(line: str) -> tuple[str, list[Candidate]]:
    """Return the word at the end of *line*, where the cursor is, and its possible completions."""
    words = _words(line)
    typed = words.pop() if words and not line[-1:].isspace() else ""
    words = words[1:]  # without the program
    if not words:
        found = [Candidate(command.name, command.summary) for command in COMMANDS]
        if typed.startswith("-"):
            found = [Candidate(name) for name in ALONE]
    elif words[0] in ("--install-completion", "--show-completion"):
        found = [Candidate(shell) for shell in SHELLS]
    else:
        command = next((command for command in COMMANDS if command.name == words[0]), None)
        return typed, [] if command is None or "--" in words else _of_command(command, words[1:], typed)
    return typed, [one for one in found if one.word.startswith(typed)]


def _of_command(command: Command, words: list[str], typed: str) -> list[Candidate]:
    """Return click's completions of the word *typed* after *words* of a command."""
    import typer
    from typer.main import get_command

    # typer brings its own click from 0.26 on
    click = typer.BadParameter.__mro__[1].__module__.rpartition(".")[0]
    get_completions: Any = import_module(f"{click}.shell_completion").ShellComplete.get_completions
    name, equals, _ = typed.partition("=")
    before = f"{name}=" if equals and name.startswith("--") else ""  # click returns the value alone
    runner = get_command(command.load())
    shell = SimpleNamespace(cli=runner, ctx_args={"obj": tuple(words)}, prog_name=f"tuner {command.name}")
    found = get_completions(shell, words, typed)
    return [
        Candidate(before + item.value, " ".join((item.help or "").split()))
        for item in found
        if item.type == "plain"
    ]


def _answer(shell: str, line: str, breaks: str) -> str:
    """Return the completions in the format of *shell*; empty on any error, so that TAB shows no errors."""
    try:
        typed, found = candidates(line)
    except Exception:  # the command reports the error when it runs
        return ""
    if shell == "bash":
        # readline replaces only the text after the last of COMP_WORDBREAKS, as in 4x6@pre, --current=4
        kept = max((typed.rfind(character) + 1 for character in breaks if not character.isspace()), default=0)
        return "".join(f"{one.word[kept:]}\n" for one in found)
    if shell == "zsh":
        return "".join(
            one.word.replace("\\", "\\\\").replace(":", "\\:") + (f":{one.about}" if one.about else "") + "\n"
            for one in found
        )
    return "".join(one.word + (f"\t{one.about}" if one.about else "") + "\n" for one in found)


def _words(line: str) -> list[str]:
    """Split a line, which may end within quotes, into words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # no closing quote, or a backslash at the end
        words.append(lexer.token)
    return words


def _shell(asked: str, name: str | None) -> str:
    """Return the shell *name*; None: the shell that started this process, else the login shell."""
    if name is None:
        try:
            parent = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            parent = ""
        name = parent if parent in SHELLS else Path(os.environ.get("SHELL", "")).name
        if name not in SHELLS:
            raise ConfigError("which shell is this?", hint=f"Name it: tuner {asked} {'|'.join(SHELLS)}")
    if name not in SHELLS:
        raise ConfigError(f"{asked}: unknown shell {name!r}", hint=f"Expected one of {', '.join(SHELLS)}.")
    return name


def _install(shell: str) -> list[str]:
    """Write the script and a line in the startup file of *shell*, once; return the changes as sentences."""
    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    script = {
        "bash": data / "tuner" / "completion.bash",
        "zsh": data / "tuner" / "zsh" / "_tuner",
        "fish": config / "fish" / "completions" / "tuner.fish",
    }[shell]
    start = {
        "bash": (home / ".bashrc", f"source {shlex.quote(str(script))}"),
        "zsh": (
            Path(os.environ.get("ZDOTDIR") or home) / ".zshrc",
            f"fpath+=({shlex.quote(str(script.parent))}); autoload -Uz compinit; compinit",
        ),
    }.get(shell)
    done = [f"Written: {script}"]
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(SCRIPTS[shell], encoding="utf-8")
        if start is not None and _append(*start):
            done.append(f"Added to {start[0]}: {start[1]}")
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename or script}: {error.strerror}",
            hint=f"tuner --show-completion {shell} prints the script.",
        ) from error
    return [*done, "A new shell has it."]


def _append(file: Path, line: str) -> bool:
    """Add *line* to *file* unless it is there; return whether it was added."""
    before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    if line in before.splitlines():
        return False
    with file.open("a", encoding="utf-8") as opened:
        opened.write(("" if before.endswith("\n") or not before else "\n") + line + "\n")
    return True
