"""From settings to jobs, and what is refused beforehand."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from tuner.adapters.supervisord.startup import WorkerJobs
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError

from ..wording import key_of, start_of, wording

pytestmark = pytest.mark.pythons


def jobs_of(*command: str, cpus: frozenset[int] | None = None, **spec: Any) -> WorkerJobs:
    return WorkerJobs(ServiceSpec("mine", command or ("/bin/sh",), **spec), 8, cpus, "mark")


def made(jobs: WorkerJobs, layout: Layout, **added: str) -> list[Any]:
    return jobs.jobs(layout, added, logs=Path("/logs"), status=Path("/pipe"))


def test_each_process_gets_its_own_command_environment_and_log() -> None:
    first, second = made(
        jobs_of("/bin/sh", "{process}/{processes}", environment={"T": "{threads}"}), Layout(2, 6)
    )

    assert (first.argv, second.argv) == (("/bin/sh", "0/2"), ("/bin/sh", "1/2"))
    assert first.environment["T"] == "6"
    assert first.environment["TUNER_RUN_ID"] == "mark"
    assert first.environment["SPT_NOENV"] == "1"  # else a title may be written over the mark
    assert (first.output, second.output) == ("/logs/worker_0.log", "/logs/worker_1.log")


def test_what_the_launch_adds_wins_over_the_service() -> None:
    (job,) = made(jobs_of(environment={"A": "service", "B": "service"}), Layout(1, 1), A="launch")

    assert (job.environment["A"], job.environment["B"]) == ("launch", "service")


def test_what_the_probe_tells_is_a_field_of_command_and_environment() -> None:
    jobs = jobs_of(
        "/bin/sh",
        "--to={TUNER_STATSD}",
        environment={"ARGS": "--statsd-host={TUNER_STATSD} -w {processes}"},
        probe_fields=("TUNER_STATSD",),
    )

    jobs.check()
    (job,) = made(jobs, Layout(1, 1), TUNER_STATSD="127.0.0.1:8125")

    assert job.argv == ("/bin/sh", "--to=127.0.0.1:8125")
    assert job.environment["ARGS"] == "--statsd-host=127.0.0.1:8125 -w 1"
    assert job.environment["TUNER_STATSD"] == "127.0.0.1:8125"


def test_the_command_is_looked_for_on_the_services_own_path(tmp_path: Path) -> None:
    (tmp_path / "only-here").write_text("#!/bin/sh\n")
    (tmp_path / "only-here").chmod(0o755)

    (job,) = made(jobs_of("only-here", environment={"PATH": str(tmp_path)}), Layout(1, 1))

    assert job.program == str(tmp_path / "only-here")
    assert job.argv == ("only-here",)


def test_a_relative_command_is_meant_from_the_services_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!/bin/sh\n")

    (job,) = made(jobs_of("./run", directory=str(tmp_path)), Layout(1, 1))

    assert job.program == str(tmp_path / "run")


def test_the_soft_limit_of_open_files_is_tuners_whatever_supervisord_raised() -> None:
    (job,) = made(jobs_of(), Layout(1, 1))

    assert job.limits == ((resource.RLIMIT_NOFILE, *resource.getrlimit(resource.RLIMIT_NOFILE)),)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"command": ("{thread}",)},
            wording("services.command-cannot-be-filled-in", error="KeyError: 'thread'"),
        ),
        ({"command": ("{",)}, wording("services.command-cannot-be-filled-in", error="ValueError")),
        ({"command": ()}, wording("services.empty-command")),
        ({"command": ("/",)}, wording("services.command-is-folder")),
        ({"environment": {"A": "{x}"}}, wording("services.environment-cannot-be-filled-in")),
        ({"stop_signal": "TREM"}, wording("services.no-signal")),
        ({"limits": {"nofiles": 3}}, wording("services.no-resource-limit")),
        ({"directory": "/no/such"}, wording("services.folder-not-there")),
        ({"user": "no-such-user"}, wording("services.no-user")),
        ({"cpus": frozenset({4096})}, wording("services.no-such-cores", cores="[4096]")),
        ({"cpus": frozenset()}, wording("services.no-such-cores", cores="[]")),
    ],
    ids=key_of,
)
def test_what_could_never_run_is_refused(spec: dict[str, Any], problem: str) -> None:
    jobs = jobs_of(*spec.pop("command", ("/bin/sh",)), **spec) if spec.get("command") != () else _empty()

    with pytest.raises(ConfigError) as refused:
        jobs.check()
    assert problem in start_of(refused.value.problem)


def _empty() -> WorkerJobs:
    return WorkerJobs(ServiceSpec("mine", ()), 8, None, "mark")


def test_a_misspelt_limit_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigError) as refused:
        jobs_of(limits={"nofiles": 3}).check()

    assert refused.value.hint == wording("command-line.did-you-mean", meant="nofile")


def test_a_sound_service_passes() -> None:
    jobs_of(
        "sh", "-c", "{threads}", cpus=frozenset({min(os.sched_getaffinity(0))}), limits={"core": 0}
    ).check()
