"""What the commands that measure share: a new file or one to go on with, measuring, how to go on."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tuner.cli.shared.exit_codes import EXIT_INTERRUPTED, EXIT_NOTHING
from tuner.cli.shared.option_parsing import asked_for
from tuner.cli.shared.output import say
from tuner.core.domain.resuming import STUDY_TYPED, TYPED, told_again
from tuner.core.domain.simulated import SIMULATED, is_simulated
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import counted
from tuner.core.text.stored_config import stored_config

if TYPE_CHECKING:
    from tuner.bootstrap.parts.metrics import MetricsAsked
    from tuner.cli.shared.option_parsing import Options
    from tuner.config.document import Document
    from tuner.config.settings import Settings
    from tuner.core.domain.fleet import BoxFacts
    from tuner.core.domain.records import StudyRecord, WindowRecord
    from tuner.core.domain.strategy import Strategy
    from tuner.core.model.profile import Profile
    from tuner.core.search.strategies.followed import Followed
    from tuner.ports import Box, Progress, Stop, Store

_NAMED = 12  #: layouts that a line names
#: settings of a study that no command had an option for, nor left out for one, when files did not tell yet
#: what was typed: only a config set them
_OF_NO_OPTION = {f"study.{name}" for name in ("warmup_cap", "warm_cache", "memory_pressure_limit")}


@dataclass(frozen=True, slots=True)
class Session:
    """Something to be measured into a file of its own."""

    settings: Settings
    record: StudyRecord
    file: Path
    is_new: bool


class KnowsLayouts(Protocol):
    """Shows the layouts of a study, whose grid may grow."""

    def grew(self, study: StudyRecord) -> None:
        """Show the layouts of *study* from now on."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What shows how a study goes."""

    say: Callable[[str], None]  #: a line among the others
    know_layouts: Sequence[KnowsLayouts]  #: get the new layouts when the grid grows


def planned(
    settings: Settings,
    profile: Profile | None,
    options: Options | None = None,
    *,
    quick: bool = False,
    on: tuple[BoxFacts, int] | None = None,
) -> StudyRecord:
    """The study that *settings* ask for, on this box, a fleet or a simulated one; see `bootstrap.planned`.

    *options* are those that the settings come from, beside a config; None: nobody knows any more.
    """
    from tuner.bootstrap import plan_builder

    record = plan_builder.planned(settings, quick=quick, profile=profile, on=on)
    if ("service", "command") in (options or {}):
        record = replace(record, provenance={**record.provenance, TYPED: "yes"})
    if options is not None:
        typed = {place[1]: given.text for place, given in options.items() if place[0] == "study"}
        kept = json.dumps(typed, sort_keys=True)
        record = replace(record, provenance={**record.provenance, STUDY_TYPED: kept})
    if left_out := settings.left_out(record.cores):
        most = settings.study.max_connections
        told = ", ".join(map(str, left_out[:_NAMED])) + (" ..." if len(left_out) > _NAMED else "")
        say(f"Not measured because they open more than {most} connections: {told}.")
    if profile is not None and settings.study.cores is None and profile.machine.cores != record.box_cores:
        say(
            f"The profile's host has {counted(profile.machine.cores, 'core')}, but a simulated host has whole"
            f" cores only: {record.box_cores:g}. Use --cores N for another number."
        )
    return record


def new_session(settings: Settings, record: StudyRecord, file: Path, *, option: str = "--study") -> Session:
    """A new file for *record*; *option* is what names it.

    Raises:
        ConfigError: the file is there already.
    """
    check_new(file, option=option)
    return Session(settings, record, file, is_new=True)


def check_new(file: Path, *, option: str = "--study") -> None:
    """ConfigError when *file*, which *option* names, is there already."""
    if os.path.lexists(
        file
    ):  # unlike Path's, no error where a folder may not be entered: told when it is made
        raise ConfigError(
            f"{file} exists already, and a study is never overwritten",
            hint=f"Continue it (--resume {file}), or give another name with {option}.",
        )


def resumed_session(
    file: Path,
    config: Path | None,
    options: Options,
    *,
    made_by: str,
    simulate: Path | None = None,
    is_here: bool = True,
) -> Session:
    """Go on with what *file* holds, which the command *made_by* has begun; not *is_here*: on a fleet.

    Raises:
        ConfigError: something else was begun in the file, *config*, *options* or *simulate* ask for something
            else, or this is another box.
    """
    from tuner.bootstrap import plan_builder, stores
    from tuner.config.legacy_defaults import filled
    from tuner.config.load import canonical_json, names_service
    from tuner.core.text.setting_changes import changed_settings

    with stores.open_store(file, read_only=True) as store:
        record = store.study()
    if (began := record.provenance.get("made_by", "tuner grid")) != made_by:
        raise ConfigError(f"{file} was begun by {began}", hint=f"Continue with: {going_on(record, file)}")
    check_same_kind(record, file, simulate)
    own_profile = plan_builder.profile_kept(record, file) if is_simulated(record) else None
    is_alone = config is None and not any(names_service(place) for place in options)
    settings = None
    if own_profile is not None or is_alone:
        settings = plan_builder.settings_kept(record, file, going_on(record, file, again=True))
    begun = stored_config(record.config if settings is None else canonical_json(settings))
    of_study: list[str] = []
    asked, profile = asked_for(
        config,
        options,
        simulate,
        kept=begun,
        look=lambda document: of_study.extend(_changes_of_study(record, document, options)),
        profile=own_profile,
    )
    if begun.get("backends") == [] and asked.backends is None:
        asked = asked.model_copy(update={"backends": ()})  # nobody was looked for then, so nobody is now
    others = changed_settings(filled(json.dumps(begun)), canonical_json(asked))
    others = [change for change in others if _matters(change, options, simulated=profile is not None)]
    if changes := of_study + others:
        named = ", ".join([*([str(config)] if config else []), *(one.option for one in options.values())])
        raise ConfigError(
            f"{named} differs from the settings that {file} was started with: {'; '.join(changes)}",
            hint="Leave it out, or start a new study without --resume.",
        )
    if profile is not None:
        plan_builder.check_same_profile(record, file, profile)
    elif is_here:
        plan_builder.check_same_box(record, file, say)
    return Session(settings or asked, record, file, is_new=False)


def begun_by(record: StudyRecord) -> Options | None:
    """What was typed for the study section where *record* was begun; None: the file does not tell."""
    from tuner.config.load import Given

    if (kept := record.provenance.get(STUDY_TYPED)) is None:
        return None
    try:
        typed = json.loads(kept)
    except (ValueError, RecursionError):
        typed = None
    if not isinstance(typed, dict):  # a stranger's file
        raise ConfigError(
            f"cannot read the options that the study was started with: {STUDY_TYPED} is {kept[:80]!r}",
            hint="Continue without the config, or restore the file from a backup.",
        )
    return {
        ("study", name): Given(f"--{name.replace('_', '-')}, typed when the study was begun", text)
        for name, text in typed.items()
    }


def _changes_of_study(record: StudyRecord, document: Document, options: Options) -> list[str]:
    """What the config's study section says that is not what the study was begun with.

    An option that began it stands over the config's; where the file does not tell which did, a setting that
    one may have replaced is told, and the study's holds.
    """
    from tuner.config.legacy_defaults import filled
    from tuner.config.resume_overrides import own_study
    from tuner.core.text.setting_changes import changed_settings

    typed = begun_by(record)
    own = own_study(document, {**(typed or {}), **options})
    kept = stored_config(filled(record.config))["study"]
    was = {"study": {name: kept.get(name) for name in own}}
    changes = changed_settings(json.dumps(was), json.dumps({"study": own}))
    if typed is not None:
        return changes
    refused = [change for change in changes if change.partition(":")[0] in _OF_NO_OPTION]
    for change in changes:
        if change not in refused:
            say(f"{change.removesuffix(' given')} in {document.name}: the study's holds")
    return refused


def _matters(change: str, options: Options, *, simulated: bool) -> bool:
    """Whether a study could not go on after this *change* of its settings.

    The file fixes the study section, options of the command line that began it included; what is typed again
    has to be the same; what the config's says is looked at by itself (`_changes_of_study`). A brake changes
    nothing of what is measured: the one given now holds. Cautions are this tuner's words.
    """
    section, _, name = change.partition(":")[0].partition(".")
    if section == "study":
        return any(place[0] == "study" and place[1] == name.partition(".")[0] for place in options)
    return not simulated and section != "brake" and not (section == "service" and name.startswith("cautions"))


def going_on(record: StudyRecord, file: Path, *, again: bool = False) -> str:
    """What to type to go on with what *file* holds.

    With the config or the command if *again*, or if they hold secrets, which the file does not.
    """
    before, after = told_again(record, again=again)
    words = record.provenance.get("made_by", "tuner grid").split()
    if parent := record.provenance.get("check_of"):
        beside = file.with_name(parent)  # where a check is kept unless told otherwise
        words.append(str(beside) if beside.exists() else parent)
    words += [*before, "--resume", str(file)]
    return shlex.join([*words, *after])


def check_same_kind(record: StudyRecord, file: Path, simulate: Path | None) -> None:
    """What was measured is never gone on with by simulating; a simulated study keeps its profile.

    Raises:
        ConfigError: *file* was measured, and *simulate* names a profile.
    """
    if simulate is not None and not is_simulated(record):
        host = record.provenance.get("host", "a real host")
        raise ConfigError(
            f"{file} was measured on {host}, so --simulate cannot continue it",
            hint="Leave --simulate out, or start another study.",
        )


def measured(
    session: Session, strategy: Strategy, metrics: MetricsAsked | None = None, *, looks: bool = False
) -> tuple[int, bool]:
    """Measure what *strategy* asks for; gives the study's exit code, and whether nothing is left to do.

    *looks*: a study that asks for it begins with a first look.

    Raises:
        ConfigError: nothing can be measured, or *metrics* are asked for and cannot be had.
    """
    from tuner.bootstrap.host import stopping_by_signal
    from tuner.core.search.strategies.followed import Followed
    from tuner.core.search.strategies.unforeseen import Unforeseen
    from tuner.study import run_study

    record = session.record
    if is_simulated(record):
        if metrics is not None:
            raise ConfigError(
                "--metrics cannot be combined with --simulate",
                hint="Leave --metrics and --metrics-file out.",
            )
        name, cores = record.provenance[SIMULATED], record.box_cores
        on = counted(cores, "core")
        say(f"Simulated: no service is started. Every figure comes from a model of {name} on {on}.")
        strategy = Unforeseen(strategy)
    if record.cores > record.box_cores:
        say(f"Layouts for {counted(record.cores, 'core')} measured on {record.box_cores:g}.")
    followed = Followed(strategy)
    with stopping_by_signal() as stop:
        began_s = None if is_simulated(record) else time.monotonic()
        try:
            with _running(session, followed, stop, metrics) as (box, store, progress, shown):
                grew = partial(_grew, followed, shown)
                looked = partial(_say_first_look, record, shown.say) if looks else None
                outcome = run_study(
                    box, store, progress, stop, followed, grew, began_s=began_s, looked=looked
                )
            return outcome.exit_code, outcome.is_over
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED, False
        except MeasurementError as error:
            if error.hint is not None or not session.file.exists():
                raise
            hint = (
                f"The windows so far are kept in {session.file}. Continue with:"
                f" {going_on(record, session.file)}"
            )
            raise MeasurementError(error.problem, hint=hint) from error


def _say_first_look(
    record: StudyRecord, say_line: Callable[[str], None], windows: Sequence[WindowRecord]
) -> None:
    """Show the provisional ranking among what is said while a study runs."""
    from tuner.reports.ranking.first_look import render_first_look

    for line in render_first_look(record, windows).splitlines():
        say_line(line)
    say_line("The study continues until the answer is known. Ctrl-C stops it and prints the ranking so far.")


def _grew(followed: Followed, shown: Shown, study: StudyRecord) -> None:
    """Go on with the strategy of *study*, whose grid has grown."""
    from tuner.bootstrap import beginning
    from tuner.core.search.strategies.of_study import strategy_of
    from tuner.core.search.strategies.unforeseen import Unforeseen

    strategy = strategy_of(study)
    followed.follow(Unforeseen(strategy) if is_simulated(study) else strategy)
    for one in shown.know_layouts:
        one.grew(study)
    if not is_simulated(study):
        shown.say(f"The grid has grown. {beginning.beginning_grown(study)}")


@contextmanager
def _running(
    session: Session, strategy: Followed, stop: Stop, metrics: MetricsAsked | None
) -> Iterator[tuple[Box, Store, Progress, Shown]]:
    """The box, real or simulated, the file, what tells how it goes, and who has to know the layouts."""
    from tuner.bootstrap import beginning, boxes, loading, progress_ui, stores
    from tuner.bootstrap.parts.metrics import metrics_shown

    record, file = session.record, session.file

    lasting = not is_simulated(record)  # what a power cut costs is simulated again

    def opened(record: StudyRecord) -> AbstractContextManager[Store]:
        if session.is_new:
            return stores.new_store(file, record, lasting=lasting)
        return stores.open_store(file, lasting=lasting, told=say)

    if is_simulated(record):
        with opened(record) as store:
            box, elapsed_s = boxes.simulated_box(record, store, file)
            yield box, store, progress_ui.simulated_lines(elapsed_s), Shown(say, ())
        return
    with ExitStack() as stack:
        shown = None
        if metrics is not None:  # a port that is taken is told before anything starts
            shown = stack.enter_context(
                metrics_shown(metrics, record, file, strategy, lambda *told: progress.warning(*told))
            )
            if shown.url is not None:
                say(f"Metrics at {shown.url}")
        view = stack.enter_context(progress_ui.showing(record, strategy, stop.requested))
        live = progress_ui.live_file(file, view)
        progress = progress_ui.to_several([view, live, *(() if shown is None else shown.told)])
        box = stack.enter_context(boxes.this_box(session.settings, record, str(file), progress.warning))
        for line in beginning.beginning(session.settings, record, is_new=session.is_new):
            view.say(line)
        if session.is_new:
            record = loading.with_clients_found(box, record, progress.warning, say, stop.requested)
            if stop.requested():
                raise KeyboardInterrupt
        store = stack.enter_context(opened(record))
        stack.enter_context(progress_ui.begun(store, view, live))
        if shown is not None:
            shown.recall(store.windows())
        yield box, store, progress, Shown(view.say, [view] if shown is None else [view, shown])


def kept(session: Session, outcome: tuple[int, bool], command: str, simulate: Path | None) -> bool:
    """Say where what *command* measured is kept, and how to go on; False: there is nothing to be shown.

    *outcome* is what `measured` gave.
    """
    code, is_over = outcome
    if not session.file.exists() or code == EXIT_NOTHING:
        return False
    say(f"Kept in {session.file}; see it again with: {command} {session.file}")
    if not is_over:
        go_on(session, command, simulate)
    return True


def go_on(session: Session, command: str, simulate: Path | None, where: Sequence[str] = ()) -> None:
    """Say how to go on; *command* is what has begun it, *where* what names the boxes."""
    before, after = told_again(session.record)
    beside = ["--simulate", str(simulate)] if simulate is not None else []
    words = [*command.split(), *before, "--resume", str(session.file), *where, *beside, *after]
    say(f"Continue with: {shlex.join(words)}")
    if after:
        say("The command and its settings (--set) have to be as before: their secrets are not kept.")
