"""tuner demo: the main job in about a minute, without any setup."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from tuner.cli import CUT_OFF, EXIT_NOTHING, EXIT_WEAKER
from tuner.cli.shared.options import (
    AsJson,
    study_file,
)
from tuner.core.errors import MeasurementError

DISTRIBUTION = "proctuner"  #: name of the package for pip


def demo(
    study: Annotated[
        Path | None, study_file("File in which tuner saves the study (default: the study is not saved).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show an example of a study: measure five layouts of the built-in service in about a minute.

    The built-in service is a crash processor, which analyses synthetic crash dumps of programs. The command
    downloads nothing. For a reliable answer, use `tuner grid`, which measures longer.

    Example: tuner demo
    """
    from tuner.app.grid import demo_session
    from tuner.app.measuring import measure
    from tuner.app.session import check_new
    from tuner.cli.shared.output import echo_err
    from tuner.core.search.strategies.of_study import strategy_of

    if study is not None:
        check_new(study)
    with _file(study) as file:
        session = demo_session(file, echo_err)
        echo_err(
            f"A demonstration: the built-in crash processor in {len(session.record.layouts)} layouts on this"
            " host. It takes about a minute if the host is quiet."
        )
        try:
            code, _ = measure(session, strategy_of(session.record), echo_err)
        except MeasurementError as error:
            raise _without_file(error, file, is_kept=study is not None) from error
        if code == EXIT_NOTHING:
            echo_err("Nothing could be measured. tuner doctor shows what disturbs this host.")
            return code
        if code in CUT_OFF:
            echo_err(
                "Stopped before the end." if study is None else f"Stopped; {study} has the windows so far."
            )
            return code
        _print_ranking(file, as_json=as_json)
    echo_err(_next_steps(study))
    return 0 if code == EXIT_WEAKER else code  # a demonstration needs no certain answer


@contextmanager
def _file(kept: Path | None) -> Iterator[Path]:
    """Yield the file of the study: *kept*, or a temporary file."""
    if kept is not None:
        yield kept
        return
    with TemporaryDirectory(prefix="tuner-demo-") as folder:
        yield Path(folder) / "demo.tuner.db"


def _without_file(error: MeasurementError, file: Path, *, is_kept: bool) -> MeasurementError:
    """Return *error*; if the file is temporary, without a hint that names it."""
    if is_kept or error.hint is None or str(file) not in error.hint:
        return error
    return MeasurementError(error.problem, hint="tuner doctor shows what disturbs this host.")


def _print_ranking(file: Path, *, as_json: bool) -> None:
    from tuner.app import study_queries
    from tuner.cli.shared.output import show
    from tuner.reports.ranking.ranking import render_ranking

    record, ranking = study_queries.rank_file(file)
    ranking = replace(ranking, next_step=None)  # `_next_steps` prints several instead
    show(render_ranking(record, ranking, "json" if as_json else "simple"))


def _next_steps(study: Path | None) -> str:
    from tuner.app.grid import WINDOW

    lines = [
        f"\nThis was a demonstration, not evidence: its windows last {WINDOW}, those of a study 1 to 10"
        " minutes.",
        "Next:",
    ]
    # uvx puts its folder on the PATH only while this process runs
    if shutil.which("tuner") is None or Path(sys.argv[0]).name == DISTRIBUTION:
        lines.append(
            f"  pip install {DISTRIBUTION}         install the command tuner, which uvx and pipx run do not"
        )
    lines += [
        "  tuner grid -- gunicorn a:app  measure your own service; tuner services lists those supported",
        "  tuner doctor                  check whether this host is fit for a study",
    ]
    if study is None:
        lines.append("  tuner demo --study demo.db    keep the study, to try tuner explain and tuner report")
    else:
        lines.append(f"  tuner explain {study}         find the bottleneck of each layout")
        lines.append(f"  tuner report {study}          write the study as an HTML page")
    return "\n".join(lines)
