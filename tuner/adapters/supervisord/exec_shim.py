"""The program that supervisord starts for each command: it becomes the command of a job file.

A job file is written by ``config.Job``; no shell and no quoting are involved. The order matters: first the
status pipe and the log (so that every later failure can be read), limits and groups while still root,
PR_SET_PDEATHSIG after setuid (which clears it), then a check that the parent did not die before that.

It starts once per process of a layout, all at the same time, so every import counts: typing, json (with re)
and signal (with enum) took 12 of 24 ms of CPU. Hence JSON from the accelerator that json itself uses, and
signals by libc.
"""

from __future__ import annotations

import ctypes
import os
import resource
from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: variable with the pid that must still be the parent; set by the process that starts a shim
PARENT = "TUNER_PARENT_PID"
_PR_SET_PDEATHSIG = 1
_SIG_SETMASK = 2
_N_SIGNALS = 64
_SIGSET_BYTES = 128
_CANNOT_PREPARE, _CANNOT_RUN, _ORPHANED = 125, 126, 124  #: exit codes, as in env(1) and timeout(1)


class _Plain:
    """Options of the JSON scanner, equal to those of json.loads. Python 3.15 added ``array_hook``."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, None
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner wants an attribute


def _scanner() -> Any:
    try:
        return make_scanner(_Plain)  # type: ignore[arg-type]  # typeshed knows json's own use only
    except AttributeError:  # the scanner of a newer Python reads more attributes
        from json import JSONDecoder

        return JSONDecoder().scan_once  # type: ignore[attr-defined]  # in json since Python 2.6


_PARSE = _scanner()


def main(job_path: str) -> None:
    """Execute the program of the job in *job_path*; write a failure to its status pipe and to stderr."""
    with open(job_path, encoding="utf-8") as file:
        job: dict[str, Any] = _PARSE(file.read(), 0)[0]
    doing, status, code = "report its start", None, _CANNOT_PREPARE
    try:
        if job["status"] is not None:
            status = os.open(job["status"], os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        doing = f"write its log {job['output']}"
        _take_streams(job["output"], job["user"])
        doing = "set its limits"
        _limit(job)
        doing = "change to its user"
        _change_user(job["user"])
        doing = f"change to the folder {job['directory']}"
        os.chdir(job["directory"])
        environment = _environment(job)
        _follow_parent(job["death_signal"])
        _restore_signals()
        doing, code = f"run {job['program']}", _CANNOT_RUN
        _report(status, job["process"], None)
        os.execve(job["program"], job["argv"], environment)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        _report(status, job["process"], f"cannot {doing}: {why}")
        os.write(2, f"cannot {doing}: {why}\n".encode("utf-8", "replace"))
        os._exit(code)


def _take_streams(output: str, user: dict[str, Any] | None) -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if user is not None:
        os.fchown(log, user["uid"], user["gid"])  # otherwise the worker cannot open /dev/stdout
    os.dup2(log, 1)
    os.dup2(log, 2)


def _limit(job: dict[str, Any]) -> None:
    if job["own_session"]:
        os.setsid()
    os.umask(job["umask"])
    for which, soft, hard in job["limits"]:
        resource.setrlimit(which, (soft, hard))
    if job["cpus"] is not None:
        os.sched_setaffinity(0, job["cpus"])


def _change_user(user: dict[str, Any] | None) -> None:
    if user is not None:
        os.setgroups(user["groups"])
        os.setgid(user["gid"])
        os.setuid(user["uid"])


def _environment(job: dict[str, Any]) -> dict[str, str]:
    environment = {**os.environ, **job["environment"]}
    for name in job["without"]:
        environment.pop(name, None)
    if job["starts_shims"]:
        environment[PARENT] = str(os.getpid())  # exec keeps the pid
    return environment


def _follow_parent(death_signal: int) -> None:
    """Request *death_signal* for the death of the parent; exit at once if it is already dead."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(death_signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if os.getppid() != int(os.environ[PARENT]):
        os._exit(_ORPHANED)


def _restore_signals() -> None:
    """Reset all signals: supervisord and the guardian ignore some, and exec would keep that."""
    libc = ctypes.CDLL(None)
    for number in range(1, _N_SIGNALS + 1):
        libc.signal(number, None)  # SIG_DFL; refused for KILL, STOP and libc's own
    libc.sigprocmask(_SIG_SETMASK, bytes(_SIGSET_BYTES), None)


def _report(status: int | None, process: int, error: str | None) -> None:
    """Write a line of JSON with the number and pid of this process, and the error if there is one."""
    if status is not None:
        words = f'"error": {encode_basestring_ascii(error)}, ' if error is not None else ""
        os.write(status, f'{{{words}"process": {process}, "pid": {os.getpid()}}}\n'.encode())
