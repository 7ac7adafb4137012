"""The settings of a command and its study file: a new study, or one to continue."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.domain.records import is_simulated, resume_arguments
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.bootstrap.wire import Say, Session
    from tuner.config.document import Document
    from tuner.config.load import DocumentLook, Given
    from tuner.config.settings import Settings
    from tuner.core.domain.records import StudyRecord
    from tuner.core.model.profile import Profile

    Options = dict[tuple[str | int, ...], Given]  #: options on the command line, by the path of their setting


def new_session(settings: Settings, record: StudyRecord, file: Path, *, option: str = "--study") -> Session:
    """Return a session with a new file for *record*; *option* is the command-line option that names it.

    Raises:
        ConfigError: the file is there already.
    """
    from tuner.bootstrap.wire import Session

    check_new(file, option=option)
    return Session(settings, record, file, is_new=True)


def check_new(file: Path, *, option: str = "--study") -> None:
    """Raise ConfigError if *file*, which *option* names, exists already."""
    # unlike Path.exists, no error for a folder without access: creating the file reports it
    if os.path.lexists(file):
        raise ConfigError(
            f"{file} exists already, and a study is never overwritten",
            hint=f"Continue it (--resume {file}), or give another name with {option}.",
        )


def resume_session(
    file: Path,
    config: Path | None,
    options: Options,
    *,
    made_by: str,
    say: Say,
    simulate: Path | None = None,
    is_here: bool = True,
) -> Session:
    """Return a session that continues *file*, begun by the command *made_by*; not *is_here*: on a fleet.

    Raises:
        ConfigError: another command began the file; *config*, *options* or *simulate* differ from it; or this
            host has another number of cores.
    """
    from tuner.app.plan_builder import check_same_box, check_same_profile, stored_settings
    from tuner.bootstrap import stores
    from tuner.bootstrap.wire import Session
    from tuner.config.legacy import fill_defaults, keep_backends
    from tuner.config.load import canonical_json, names_service
    from tuner.config.profile import stored_profile
    from tuner.core.domain.stored_config import StoredConfig, list_changed_settings

    with stores.open_store(file, read_only=True) as store:
        record = store.study()
    if (began := record.provenance.command) != made_by:
        raise ConfigError(f"{file} was begun by {began}", hint=f"Continue with: {going_on(record, file)}")
    check_same_kind(record, file, simulate)
    own_profile = stored_profile(record, file) if is_simulated(record) else None
    is_alone = config is None and not any(names_service(place) for place in options)
    settings = None
    if own_profile is not None or is_alone:
        settings = stored_settings(record, file, going_on(record, file, again=True))
    kept = record.config if settings is None else StoredConfig(canonical_json(settings))
    of_study: list[str] = []
    asked, profile = load_request(
        config,
        options,
        simulate,
        kept=kept.sections,
        look=lambda document: of_study.extend(_changes_of_study(record, document, options, say)),
        profile=own_profile,
    )
    asked = keep_backends(asked, kept.sections)
    others = list_changed_settings(fill_defaults(kept).sections, StoredConfig(canonical_json(asked)).sections)
    others = [change for change in others if _matters(change, options, simulated=profile is not None)]
    if changes := of_study + others:
        named = ", ".join([*([str(config)] if config else []), *(one.option for one in options.values())])
        raise ConfigError(
            f"{named} differs from the settings that {file} was started with: {'; '.join(changes)}",
            hint="Leave it out, or start a new study without --resume.",
        )
    if profile is not None:
        check_same_profile(record, file, profile)
    elif is_here:
        check_same_box(record, file, say)
        _check_turns(record, settings or asked, file)
    return Session(settings or asked, record, file, is_new=False)


def _check_turns(record: StudyRecord, settings: Settings, file: Path) -> None:
    """Check that layouts that took turns can still do so: safety limits may have changed.

    Raises:
        ConfigError: they cannot.
    """
    if record.n_resident == 1:
        return
    from tuner.bootstrap.parts.gates import takes_turns

    n_resident, why = takes_turns(settings, is_simulated=False)
    if n_resident == 1:
        raise ConfigError(
            f"the layouts of {file} take turns, and cannot do so any more: {why}",
            hint="Undo this change, or start a new study without --slices auto.",
        )


def original_options(record: StudyRecord) -> Options | None:
    """Return the options typed for the study section when *record* was begun; None: not stored."""
    from tuner.config.load import Given

    if (kept := record.provenance.study_typed) is None:
        return None
    try:
        typed = json.loads(kept)
    except (ValueError, RecursionError):
        typed = None
    if not isinstance(typed, dict):  # a file that tuner did not write
        raise ConfigError(
            f"cannot read the options that the study was started with: study_typed is {kept[:80]!r}",
            hint="Continue without the config, or restore the file from a backup.",
        )
    return {
        ("study", name): Given(f"--{name.replace('_', '-')}, typed when the study was begun", text)
        for name, text in typed.items()
    }


def _changes_of_study(record: StudyRecord, document: Document, options: Options, say: Say) -> list[str]:
    """Return the differences of the config's study section from the settings of the study.

    Options of the first session override the config. If the file does not store them, settings that they may
    have replaced are printed, and the study's settings apply.
    """
    from tuner.config.legacy import SET_BY_CONFIG_ALONE, fill_defaults, study_overrides
    from tuner.core.domain.stored_config import list_changed_settings

    typed = original_options(record)
    own = study_overrides(document, {**(typed or {}), **options})
    kept = fill_defaults(record.config).study
    was = {"study": {name: kept.get(name) for name in own}}
    changes = list_changed_settings(was, {"study": own})
    if typed is not None:
        return changes
    refused = [change for change in changes if change.partition(":")[0] in SET_BY_CONFIG_ALONE]
    for change in changes:
        if change not in refused:
            say(f"{change.removesuffix(' given')} in {document.name}: the study's holds")
    return refused


def _matters(change: str, options: Options, *, simulated: bool) -> bool:
    """Return whether *change* of the settings forbids to resume the study.

    The file fixes the study section, including its first options: options typed again must be the same.
    `_changes_of_study` checks the config's study section. Safety limits do not change the measurements, so
    the present ones apply. Cautions are texts of this version of tuner.
    """
    section, _, name = change.partition(":")[0].partition(".")
    if section == "study":
        return any(place[0] == "study" and place[1] == name.partition(".")[0] for place in options)
    return not simulated and section != "brake" and not (section == "service" and name.startswith("cautions"))


def going_on(record: StudyRecord, file: Path, *, again: bool = False) -> str:
    """Return the command that continues the study in *file*.

    It includes the config or the service's command if *again* is set, or if the file lacks their secrets.
    """
    before, after = resume_arguments(record, again=again)
    words = record.provenance.command.split()
    if parent := record.provenance.check_of:
        beside = file.with_name(parent)  # the default place of a check
        words.append(str(beside) if beside.exists() else parent)
    words += [*before, "--resume", str(file)]
    return shlex.join([*words, *after])


def check_same_kind(record: StudyRecord, file: Path, simulate: Path | None) -> None:
    """Check that a measured study is not continued by a simulation.

    Raises:
        ConfigError: *file* was measured, and *simulate* names a profile.
    """
    if simulate is not None and not is_simulated(record):
        host = "a real host" if record.provenance.host is None else record.provenance.host
        raise ConfigError(
            f"{file} was measured on {host}, so --simulate cannot continue it",
            hint="Leave --simulate out, or start another study.",
        )


# The settings of a config and of the options of a command.


_SQLITE = b"SQLite format 3\0"  #: first bytes of every SQLite file


@contextmanager
def naming_option(option: str) -> Iterator[None]:
    """Prefix ConfigErrors inside the block with the name of *option*."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{option}: {error.problem}", hint=error.hint) from error


def is_study(file: Path) -> bool:
    """Return whether *file* is a study, according to its first bytes; it may have any name.

    A name ``*.db`` always counts as a study, so that opening a missing or wrong file gives a clear error.
    """
    return file.suffix == ".db" or _is_sqlite(file)


def _is_sqlite(file: Path) -> bool:
    try:
        if not file.is_file():  # a pipe can be read once
            return False
        with file.open("rb") as opened:
            return opened.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # reading it as a config reports the error


def load_request(
    config: Path | None,
    options: Options,
    simulate: Path | None,
    *,
    kept: Mapping[str, Any] | None = None,
    look: DocumentLook | None = None,
    profile: Profile | None = None,
) -> tuple[Settings, Profile | None]:
    """Return the settings, and the profile to simulate; with a profile only the study section is used.

    *kept* are the settings of a study to resume, *look* is called with its config; see `load_settings`.
    *profile* is the study's own profile, used if *simulate* names no other.

    Raises:
        ConfigError: all errors of config and options, or options that a simulated study cannot use.
    """
    from tuner.bootstrap.configs import settings_of

    if config is not None and _is_sqlite(config):
        raise ConfigError(
            f"expected a config file, but {config} is a study",
            hint=f"Rank it with tuner rank {config}, or continue it with --resume {config}.",
        )
    if simulate is None and profile is None:
        return settings_of(config, options, kept=kept, look=look), None
    from tuner.config.profile import read_profile

    for place, option in options.items():
        if place[0] != "study":
            raise ConfigError(
                f"{option.option} is for a service that runs; in a simulated study none does",
                hint="Leave one of them out.",
            )
    profile = read_profile(simulate) if simulate is not None else profile
    left_out = ("service", "hooks", "brake", "backends")
    return settings_of(config, options, without=left_out, kept=kept, look=look), profile
