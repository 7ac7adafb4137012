"""What `plan`, `aa` and `check` share: options to settings, a new file or one to go on with, measuring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tuner.cli import EXIT_INTERRUPTED
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.config.load import Given
    from tuner.config.settings import Settings
    from tuner.core.records import StudyRecord
    from tuner.core.strategy import Strategy

    Options = dict[tuple[str | int, ...], Given]


@dataclass(frozen=True, slots=True)
class Session:
    """Something to be measured into a file of its own."""

    settings: Settings
    record: StudyRecord
    file: Path
    is_new: bool


def given(texts: Mapping[tuple[str, str], str | None]) -> Options:
    """The options that were typed; *texts* is by their place in the settings."""
    from tuner.config.load import Given

    return {
        place: Given(f"--{place[1].replace('_', '-')}", text)
        for place, text in texts.items()
        if text is not None
    }


def new_session(settings: Settings, record: StudyRecord, file: Path) -> Session:
    """A new file for *record*.

    Raises:
        ConfigError: the file is there already.
    """
    if file.exists() or file.is_symlink():
        raise ConfigError(
            f"{file} exists already, and a study is never overwritten",
            hint=f"Go on with it (--resume {file}), or give another name with --study.",
        )
    return Session(settings, record, file, is_new=True)


def resumed_session(file: Path, config: Path | None, options: Options, *, made_by: str) -> Session:
    """Go on with what *file* holds, which the command *made_by* has begun.

    Raises:
        ConfigError: something else was begun in the file, *config* or *options* ask for something else, or
            this is another box.
    """
    from tuner import bootstrap
    from tuner.config.load import canonical_json, load_settings, settings_of_study
    from tuner.core.changes import changed_settings

    with bootstrap.open_store(file, read_only=True) as store:
        record = store.study()
    if (began := record.provenance.get("made_by", "tuner grid")) != made_by:
        raise ConfigError(f"{file} was begun by {began}", hint=f"Go on with: {began} --resume {file}")
    if options:
        named = ", ".join(option.option for option in options.values())
        raise ConfigError(
            f"--resume goes on with what {file} asks for; {named} cannot change that", hint="Leave it out."
        )
    if config is None:
        settings = settings_of_study(record.config, str(file))
    else:
        settings = load_settings(config, {})
        changes = changed_settings(record.config, canonical_json(settings))
        if changes := [change for change in changes if not change.startswith("study")]:
            raise ConfigError(
                f"{config} is not what {file} was begun with: {'; '.join(changes)}", hint="Leave it out."
            )
    bootstrap.check_same_box(record, file, say)
    return Session(settings, record, file, is_new=False)


def measured(session: Session, strategy: Strategy) -> tuple[int, bool]:
    """Measure what *strategy* asks for; gives the study's exit code, and whether nothing is left to do."""
    from tuner import bootstrap
    from tuner.adapters.signals import stopping_by_signal
    from tuner.adapters.terminal import showing_progress
    from tuner.study import run_study

    record, file = session.record, session.file
    if record.cores > record.box_cores:
        say(f"Layouts for {record.cores} cores measured on {record.box_cores:g}.")
    with stopping_by_signal() as stop:
        try:
            with (
                showing_progress() as progress,
                bootstrap.this_box(session.settings, record, str(file), progress.warning) as box,
                bootstrap.new_store(file, record) if session.is_new else bootstrap.open_store(file) as store,
            ):
                outcome = run_study(box, store, progress, stop, strategy)
            return outcome.exit_code, outcome.is_over
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED, False


def say(text: str) -> None:
    """Tell the person at the terminal; results go elsewhere."""
    typer.echo(text, err=True)
