"""The command line: finds and runs the command, and prints errors in one line.

A command is one file of this package; ``COMMANDS`` names it. Only the file of the command that runs is
imported, so that ``tuner --help`` is there at once.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuner import __version__
from tuner.core.errors import (
    CUT_OFF,
    EXIT_BRAKED,
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_NOTHING,
    EXIT_WEAKER,
    OptionsError,
    TunerError,
    shortage,
)

if TYPE_CHECKING:
    import typer

__all__ = [
    "ALONE",
    "COMMANDS",
    "CUT_OFF",
    "EXIT_BRAKED",
    "EXIT_INPUT",
    "EXIT_INTERRUPTED",
    "EXIT_NOTHING",
    "EXIT_WEAKER",
    "Command",
    "main",
    "render_help",
    "run",
]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, as listed on the first page of help."""

    panel: str  #: group of the command in the help
    name: str  #: command name, as typed
    summary: str
    module: str  #: module that contains the command's function or its Typer ``app``

    def load(self) -> typer.Typer:
        """Import the command's module and return its Typer application."""
        import typer

        module = import_module(self.module)
        app: typer.Typer | None = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            function: Callable[..., Any] = getattr(module, self.name.replace("-", "_"))
            app.command(name=self.name, help=_reflow(function.__doc__ or ""))(function)
        return app


_HERE = "tuner.cli"

#: The commands in the order of the first page. A new command needs one file and one line here.
COMMANDS = (
    Command("Measure", "demo", "Measure the built-in service for a minute, as an example.", f"{_HERE}.demo"),
    Command(
        "Measure", "grid", "Measure layouts of a service in random order, and rank them.", f"{_HERE}.grid"
    ),
    Command("Measure", "plan", "Estimate how long a study takes, from a short pilot.", f"{_HERE}.plan"),
    Command("Measure", "aa", "Compare a layout with itself, to count false alarms.", f"{_HERE}.aa"),
    Command("Measure", "check", "Check whether a study's best layout is still the best.", f"{_HERE}.check"),
    Command("Measure", "watch", "Show the state of a study, during and after it.", f"{_HERE}.watch"),
    Command("Answer", "rank", "Rank the layouts of a study, best first.", f"{_HERE}.rank"),
    Command(
        "Answer",
        "export",
        "Write the ranking as Markdown, CSV, JSON or into a runbook.",
        f"{_HERE}.export",
    ),
    Command("Answer", "report", "Write a study as one HTML page to keep, mail and print.", f"{_HERE}.report"),
    Command("Answer", "serve", "Serve studies as web pages that update while they run.", f"{_HERE}.serve"),
    Command(
        "Answer", "explain", "Show the bottleneck of each layout: GIL, cores, waiting ...", f"{_HERE}.explain"
    ),
    Command("Answer", "predict", "Predict results of layouts and cores not measured.", f"{_HERE}.predict"),
    Command("Answer", "compare", "Compare two studies, and print the changes.", f"{_HERE}.compare"),
    Command("Model", "calibrate", "Measure the CPU and waiting time of an item.", f"{_HERE}.calibrate"),
    Command("Model", "replay", "Test a strategy on simulated studies.", f"{_HERE}.replay"),
    Command("Model", "lab", "Repeat published experiments on this host.", f"{_HERE}.lab"),
    Command("Services", "services", "List the supported services.", f"{_HERE}.services"),
    Command("Services", "init", "Write a commented config for the command of a service.", f"{_HERE}.init"),
    Command("Services", "sample", "Record messages of a queue, as input of a study.", f"{_HERE}.sample"),
    Command("Hosts", "doctor", "Check whether this host is fit for a study.", f"{_HERE}.doctor"),
    Command("Hosts", "box", "Let this host take part in a study on several hosts.", f"{_HERE}.box"),
    Command("Hosts", "fleet", "Run the scheduler of several hosts, or create its keys.", f"{_HERE}.fleet"),
)

_INTRO = """\
Usage: tuner COMMAND [OPTIONS]

Finds how many processes and threads your Python worker service should run.

  tuner demo                    an example study of one minute
  tuner grid --quick            a first look at the built-in service, 3 minutes
  tuner grid -- gunicorn a:app  a study of your service
  tuner init -- gunicorn a:app  a config for your service, for tuner grid CONFIG
  tuner rank STUDY.tuner.db     the ranking of a study
"""
_OUTRO = """\
Options:
  --version  Print the version.
  --help     Print this page. tuner COMMAND --help explains one command.
  --install-completion [SHELL]  Let TAB complete commands, options and layouts,
                                in bash, zsh and fish.
  --show-completion [SHELL]     Print the script that does this.
"""
#: options that may stand in place of a command
ALONE = ("--help", "--version", "--install-completion", "--show-completion")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends by SystemExit unless the exit code is 0."""
    from tuner.bootstrap.streams import fill_closed_streams

    fill_closed_streams()
    code = run(list(sys.argv[1:] if arguments is None else arguments))
    if code:
        sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run *arguments* and return the exit code; an unexpected error is raised with its traceback."""
    try:
        code = _run(arguments)
        sys.stdout.flush()  # flush here, where the error of a full disk can still be reported
        return code
    except TunerError as error:
        _complain(error.problem, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted", None)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return 0
    except FileNotFoundError:
        if _has_current_folder():
            raise
        _complain("the current folder does not exist any more", "Change to another one: cd /path/to/folder")
        return EXIT_INPUT
    except (OSError, RuntimeError, MemoryError) as error:
        return _report_shortage(error)


def _report_shortage(error: BaseException) -> int:
    """Print which resource of the host is exhausted and return an exit code; raise any other error again."""
    lacking = shortage(error)
    if lacking is None:
        raise error
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        _close_stdout()
        lacking = "no space left on the device that the output goes to", "Free some, and run it again."
    _complain(*lacking)
    return EXIT_INPUT


def _has_current_folder() -> bool:
    import os

    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def render_help() -> str:
    """Return the first page of help: the most common uses, then every command in its group."""
    width = max(len(command.name) for command in COMMANDS)
    pages = [_INTRO]
    for panel in dict.fromkeys(command.panel for command in COMMANDS):
        members = [command for command in COMMANDS if command.panel == panel]
        pages.append(
            f"{panel}:\n" + "".join(f"  {command.name:<{width}}  {command.summary}\n" for command in members)
        )
    return "\n".join([*pages, _OUTRO])


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        sys.stdout.write(render_help())
        return 0 if arguments else EXIT_INPUT
    if arguments[0] == "--version":
        sys.stdout.write(f"tuner {__version__}\n")
        return 0
    if arguments[0] in ("--install-completion", "--show-completion", "--complete"):
        from tuner.cli.completion import completion

        return completion(arguments[0], arguments[1:])
    import typer

    usage_error: Any = typer.BadParameter.__mro__[1]  # typer brings its own click from 0.26 on
    command = _command(arguments[0])
    runner, words = _runner(command, arguments[1:])
    try:
        with runner.make_context(f"tuner {command.name}", list(words)) as context:
            code = runner.invoke(context)
    except usage_error as error:
        _complain(*_usage_problem(error, command))
        return EXIT_INPUT
    except OptionsError as error:
        _complain(error.problem, _options_hint(command))
        return error.exit_code
    except typer.Exit as end:
        return end.exit_code
    except SystemExit:
        if "--help" not in words:
            raise
        return 0  # raised by rich when the reader of a page closes the pipe
    return code if isinstance(code, int) else 0


def _command(name: str) -> Command:
    known = {command.name: command for command in COMMANDS}
    if name in known:
        return known[name]
    kind = "option" if name.startswith("-") else "command"
    near = get_close_matches(name, ALONE if kind == "option" else known, n=1)
    hint = f"Did you mean {near[0]}?" if near else "tuner --help lists the commands."
    raise TunerError(f"no such {kind}: {name}", hint=hint)


def _runner(command: Command, arguments: list[str]) -> tuple[Any, list[str]]:
    """Return the runner of *command*, and *arguments* with the service's command as an option."""
    from typer.main import get_command

    runner = get_command(command.load())
    if "--" in arguments:
        return runner, _with_service_command(runner, command, arguments)
    from tuner.cli.shared.option_parsing import check_dashes

    check_dashes(command.name, runner.params, arguments)
    return runner, arguments


def _with_service_command(runner: Any, command: Command, arguments: list[str]) -> list[str]:
    """Return *arguments* with the words after ``--`` as the value of ``--command``."""
    import shlex

    at = arguments.index("--")
    if not any("--command" in parameter.opts for parameter in runner.params):
        are_names = all(word.startswith("-") for word in arguments[at + 1 :])
        if are_names:  # names of files that begin with a dash, not the command of a service
            return arguments
        raise TunerError(
            f"tuner {command.name} starts no service: {' '.join(arguments[at:])}", hint="Leave it out."
        )
    if not arguments[at + 1 :]:
        raise TunerError("expected a command after --", hint="Example: tuner grid -- gunicorn app:app")
    if any(word == "--command" or word.startswith("--command=") for word in arguments[:at]):
        raise TunerError(
            "the service's command is given twice: by --command and after --", hint="Leave one out."
        )
    return [*arguments[:at], "--command", shlex.join(arguments[at + 1 :])]


def _reflow(text: str) -> str:
    """Join each paragraph of *text* to one line, so that help fits any terminal; Typer joins one only."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


_IN_OUR_WORDS = {  # the words of the same errors in a config
    "should be a valid integer, unable to parse string as an integer": "should be a whole number",
    "should be a valid number, unable to parse string as a number": "should be a number",
}


def _usage_problem(error: Any, command: Command) -> tuple[str, str]:
    problem = " ".join(str(error.message).split()).rstrip(".")
    unknown, context = getattr(error, "option_name", None), error.ctx
    if "No such option" in problem and unknown is not None and context is not None:
        names = [name for parameter in context.command.params for name in parameter.opts]
        near = get_close_matches(unknown, [name for name in [*names, "--help"] if name.startswith("-")], n=1)
        if near:
            return problem, f"Did you mean {near[0]}?"
    if not problem:  # the name of a missing argument is in format_message()
        problem = " ".join(str(error.format_message()).split()).rstrip(".")
    elif option := next(iter(getattr(getattr(error, "param", None), "opts", ())), None):
        said = problem.removeprefix("Input ")
        problem = f"{option}: {_IN_OUR_WORDS.get(said, said)}"
    return problem[0].lower() + problem[1:], _options_hint(command)


def _options_hint(command: Command) -> str:
    return f"tuner {command.name} --help lists the options."


def _complain(problem: str, hint: str | None) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"Error: {problem}\n" + (f"{hint}\n" if hint else ""))


def _close_stdout() -> None:
    """Redirect stdout to /dev/null, so that the interpreter reports no error about it at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
