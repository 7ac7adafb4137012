"""Analysis of the stackwalker's output in Python: parse, cut, compute the signature, classify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .classifiers import classify
from .signature import crash_signature
from .spawn import Ended
from .walk_output import WalkOutputError, crashing_frames, parse_walk_output, truncate_crashing_thread

_MAX_MESSAGE = 4000  # characters; crash-stackwalk prints a line for each kind of unreadable data


class Analysis(NamedTuple):
    """Results of an analysis, named like the fields of a processed crash."""

    success: bool  #: whether the stackwalker produced a stack
    signature: str
    crash_type: str
    classifications: dict[str, object]
    json_dump: dict[str, Any]
    notes: list[str]


def analyse(
    ended: Ended | None, processed: Mapping[str, Any], frame_threshold: int, tail_frame_threshold: int
) -> Analysis:
    """Analyse the stackwalker's output; *ended* is None for a dump that was not walked.

    For a failed stackwalker, ``success`` is False and the notes contain the reason.
    """
    notes: list[str] = []
    dump: dict[str, Any] = {}
    success = False
    if ended is not None:
        try:
            dump = parse_walk_output(ended.stdout.decode("utf-8", "replace").splitlines())
        except WalkOutputError as error:
            notes.append(str(error))
        notes += _notes_on_end(ended)
        success = bool(dump) and ended.exit_code == 0 and ended.killed is None and dump.get("status") == "OK"
    if truncate_crashing_thread(dump, frame_threshold, tail_frame_threshold):
        notes.append(f"crashing thread cut to {frame_threshold} + {tail_frame_threshold} frames")
    frames = crashing_frames(dump)
    info = dump.get("crash_info")
    crash_type = str(info.get("type") or "") if isinstance(info, dict) else ""
    signature, signature_notes = crash_signature(frames, processed, crash_type)
    return Analysis(success, signature, crash_type, classify(dump, frames), dump, notes + signature_notes)


def _notes_on_end(ended: Ended) -> list[str]:
    notes = []
    if ended.killed is not None:
        notes.append(f"the stackwalker was killed: {ended.killed}")
    elif ended.exit_code != 0:
        notes.append(f"the stackwalker failed: {ended.describe()}")
    if message := ended.stderr.decode("utf-8", "replace").strip():
        notes.append(f"the stackwalker said: {message[:_MAX_MESSAGE]}")
    return notes
