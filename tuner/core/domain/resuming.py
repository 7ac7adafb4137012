"""What has to be typed again where a study goes on, or is checked."""

from __future__ import annotations

from tuner.core.domain.records import StudyRecord
from tuner.core.text.secret_names import HIDDEN

CONFIG_FILE = "config_file"  #: in the provenance: the config that the study was begun with, as it was typed
TYPED = "command_typed"  #: in the provenance: the command was on the command line, in no config
#: likewise: what was typed for its study section over the config's, as JSON, texts by their names; older
#: files do not tell
STUDY_TYPED = "study_typed"


def resume_arguments(record: StudyRecord, *, again: bool = False) -> tuple[list[str], list[str]]:
    """What is put before ``--resume FILE`` and what behind it: the config or the command.

    Nothing, unless they hold secrets, or *again* says that they are needed all the same.
    """
    if not (again or HIDDEN in record.config):
        return [], []
    if TYPED in record.provenance:
        return [], ["--", "COMMAND"]
    return [record.provenance.get(CONFIG_FILE, "CONFIG")], []
