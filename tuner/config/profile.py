"""Profiles of services as YAML files: read and checked, and written so that reading gives the same again.

Every key may be left out but the name, a demand above nothing, and the machine's cores. Durations and memory
have units, shares may be percentages: ``gil: 586ms``, ``process: 60MB``, ``window: 5%``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuner.config.document import Document, FileKind, read_document
from tuner.config.problems import problems
from tuner.config.profile_sections import DEMANDS, ProfileFile
from tuner.config.profile_text import profile_texts, render_profile
from tuner.core.domain.records import StudyRecord
from tuner.core.errors import ConfigError
from tuner.core.model.demand import Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.profile import FAILURES, Failure, Profile, ProfileMemory, ProfileNoise
from tuner.core.stats.interval import Estimate
from tuner.core.text.stored_config import parse_stored_config

__all__ = ["parse_profile", "profile_texts", "read_profile", "render_profile"]

PROFILE = FileKind("profile", "configs/profiles/socorro-2014.yaml")


def read_profile(path: Path) -> Profile:
    """Read and check the profile at *path*.

    Raises:
        ConfigError: it cannot be read, or with every error, each as ``file:line:column: key: what``.
    """
    return _profile_of(read_document(path, PROFILE))


def parse_profile(texts: Mapping[str, Any], name: str) -> Profile:
    """The profile of which ``profile_texts`` made *texts*; *name* is the file that kept them.

    Raises:
        ConfigError: another version of tuner made them.
    """
    return _profile_of(Document(name, texts))


def profile_kept(record: StudyRecord, file: Path) -> Profile:
    """The profile that the simulated study in *file* plays."""
    return parse_profile(parse_stored_config(record.config)["simulate"], str(file))


def _profile_of(document: Document) -> Profile:
    if "demands" not in document.values and {"service", "study"} & set(document.values):
        raise ConfigError(
            f"{document.name} is a config, not a profile",
            hint=f"Make a profile of its service: tuner calibrate {document.name} --into NAME.yaml",
        )
    try:
        file = ProfileFile.model_validate(document.values)
    except ValidationError as error:
        found = problems(error, document, document.values, {}, ProfileFile)
        hint = None if len(found) == 1 else f"{len(found)} things to put right in {document.name}."
        raise ConfigError("\n".join(found), hint=hint) from error
    demands, machine, terms, noise = file.demands, file.machine, file.terms, file.noise
    failures: dict[Failure, float] = {kind: file.failures[kind] for kind in FAILURES if kind in file.failures}
    return Profile(
        name=file.name,
        source=file.source,
        demands=Demands(
            **{field: getattr(demands, name) for name, field in DEMANDS.items()},
            others_s=demands.others,
            n_gil_visits=demands.gil_visits,
            cv_ratio=demands.spread,
        ),
        machine=Machine(
            cores=machine.cores,
            physical_cores=machine.physical_cores,
            smt_gain_ratio=machine.smt_gain,
            foreign_cores=machine.foreign_cores,
            has_gil=machine.gil,
            switch_interval_s=machine.switch_interval,
            handover_s=machine.handover,
            wake_s=machine.wake,
        ),
        terms=Terms(
            process_cores=terms.process_cores,
            cpu_per_process_ratio=terms.cpu_per_process,
            blocked_per_process_ratio=terms.blocked_per_process,
            threaded_asleep_s=terms.threaded_asleep,
            convoy_ratio=terms.convoy,
        ),
        noise=ProfileNoise(
            window_sd=noise.window,
            launch_sd=noise.launch,
            drift_sd=noise.drift,
            drift_ar1=noise.drift_ar1,
            second_sd=noise.second,
            model_sd=noise.model,
        ),
        memory=ProfileMemory(
            process_bytes=file.memory.process, thread_bytes=file.memory.thread, child_bytes=file.memory.child
        ),
        simulated=file.simulated or "",
        measured=tuple(file.measured or ()),
        busy_cores=machine.busy_cores,
        start_s=file.launch.start,
        settle_s=file.launch.settle,
        stop_s=file.launch.stop,
        failures=failures,
        intervals={
            DEMANDS[name]: Estimate(one.mean, one.low, one.high) for name, one in file.intervals.items()
        },
    )
