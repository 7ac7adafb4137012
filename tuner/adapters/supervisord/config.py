"""The supervisord of one launch: its configuration, its files, and calls to it."""

from __future__ import annotations

import http.client
import importlib.util
import json
import math
import os
import resource
import shlex
import socket
import sys
import xmlrpc.client
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import tuner
from tuner.adapters.supervisord.sweep import RUN_ID
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError

# The job of an exec shim: the program that it executes, as JSON.

_BOOT_JOB = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from tuner.adapters.supervisord.exec_shim import main; main(sys.argv[2])"
)
#: variables for the launch itself, which workers do not get
INTERNAL = ("TUNER_PARENT_PID", "TUNER_SHIM")


@dataclass(frozen=True, slots=True)
class User:
    """The user and groups that a program runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A program and its start conditions; the shim adds *environment* to the inherited environment."""

    process: int  #: number of the process in the layout, from 0; -1 for supervisord
    program: str  #: absolute path of the executable
    argv: tuple[str, ...]
    directory: str
    output: str  #: file to which stdout and stderr are appended
    environment: Mapping[str, str]
    without: tuple[str, ...] = ()  #: variables removed from the environment
    #: named pipe for the messages "about to run" and failures, one line of JSON each
    status: str | None = None
    death_signal: int = 15  #: signal sent by the kernel when the parent dies
    umask: int = 0o022
    limits: tuple[tuple[int, int, int], ...] = ()  #: (resource, soft, hard)
    cpus: tuple[int, ...] | None = None  #: CPUs that it may use; None: the CPUs of tuner
    user: User | None = None  #: None: the user of tuner
    own_session: bool = False
    starts_shims: bool = False  #: whether its children are shims, which check that it is their parent

    def write(self, path: Path) -> None:
        """Write it to *path*, readable only by this user, because environments contain secrets."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def shim_command(*arguments: str) -> list[str]:
    """Return the command line of the shim: a compiled module, because a script would take 2 ms more.

    ``-I -S``: no PYTHON* variables of the user, no site-packages.
    """
    return [sys.executable, "-I", "-S", "-c", _BOOT_JOB, str(Path(tuner.__file__).parent.parent), *arguments]


GROUP = "worker"  #: name of the program; its processes are worker_0, worker_1, ...
CONFIG, SOCKET, STATUS, OWN_JOB = "supervisord.conf", "s", "status", "supervisord.json"
LOG, OUTPUT = "supervisord.log", "supervisord.out"
_OWN_FILES = 32  #: approximate number of files that supervisord itself keeps open (measured: 12)
_FILES_PER_PROCESS = 4  #: two pipes, a log, and one more during a fork

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from supervisor.supervisord import main; main(sys.argv[2:])"
)
_TEMPLATE = """\
; written by tuner for one launch, and gone with it. Paths are relative to the folder this file is in, and the
; command comes by environment: supervisor expands some values twice, so no path is safe in here
[unix_http_server]
file={socket}
chmod=0600

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisord]
nodaemon=true
silent=true
nocleanup=true
identifier=tuner
directory=.
logfile={log}
logfile_maxbytes=0
pidfile=supervisord.pid
childlogdir=.
minfds={minfds}
minprocs=1
{user}
[program:{group}]
command=%(ENV_TUNER_SHIM)s/%(process_num)d.json
process_name=%(program_name)s_%(process_num)d
numprocs={processes}
autostart=true
; a crash spoils the launch, it is never hidden
autorestart=false
startretries=0
; RUNNING at once: tuner itself checks that each worker was executed and stays alive
startsecs=0
exitcodes=0
stopsignal={stop_signal}
stopwaitsecs={stop_wait_s}
stopasgroup={stop_as_group}
killasgroup=true
; only what the shim says before it has its own log; workers write to that log themselves
redirect_stderr=true
stdout_logfile={program_log}
stdout_logfile_maxbytes=0
"""


def render_config(spec: ServiceSpec, processes: int, *, minfds: int, as_root: bool) -> str:
    """Return the text of supervisord's configuration file for *processes* programs of *spec*."""
    return _TEMPLATE.format(
        socket=SOCKET,
        log=LOG,
        minfds=minfds,
        user="user=0\n" if as_root else "",  # without it, supervisord logs a critical line
        group=GROUP,
        program_log=_log_name("%(process_num)d"),
        processes=processes,
        stop_signal=spec.stop_signal,
        stop_wait_s=math.ceil(spec.stop_wait_s),
        stop_as_group="true" if spec.stop_as_group else "false",
    )


def program_logs(folder: Path, n_programs: int) -> list[Path]:
    """Return the log files of the programs of a launch, by number, in its folder of logs.

    A file of the same name in the launch's own folder has the output of a shim before it opened its log.
    """
    return [folder / _log_name(str(process)) for process in range(n_programs)]


def _log_name(process: str) -> str:
    return f"{GROUP}_{process}.log"


def supervisord_files(processes: int) -> int:
    """Return the largest number of files that supervisord opens for *processes* programs."""
    return _OWN_FILES + _FILES_PER_PROCESS * processes


def open_files_needed(processes: int) -> int:
    """Return the number of files that supervisord must be able to open.

    Raises:
        ConfigError: it exceeds the hard limit, for which supervisord prints a misleading error.
    """
    needed = supervisord_files(processes)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard not in (resource.RLIM_INFINITY, -1) and needed > hard:
        raise ConfigError(
            f"{processes} processes need {needed} open files in supervisord, the hard limit is {hard}",
            hint="Raise it (`ulimit -Hn`, LimitNOFILE= in a systemd unit) or use layouts of fewer processes.",
        )
    return needed


def supervisord_job(folder: Path, marker: str) -> Job:
    """Return the job of supervisord itself: only with its own package, in a new session without Ctrl-C."""
    shim = shim_command(str(folder))
    argv = (sys.executable, "-I", "-S", "-c", _BOOT, str(_supervisor_home()), "-c", CONFIG)
    return Job(
        process=-1,
        program=sys.executable,
        argv=argv,
        directory=str(folder),
        output=str(folder / OUTPUT),
        environment={
            RUN_ID: marker,
            "TUNER_SHIM": " ".join(map(shlex.quote, shim)),
        },
        own_session=True,
        starts_shims=True,
        umask=0o077,
    )


def _supervisor_home() -> Path:
    """Return the folder of the ``supervisor`` package, which saves 42 ms of CPU over all site-packages."""
    found = importlib.util.find_spec("supervisor")
    if found is None or found.origin is None:
        raise ConfigError("supervisor is not installed", hint="Run `pip install supervisor`.")
    return Path(os.path.abspath(found.origin)).parent.parent


# Client of a supervisord at its unix socket: with a timeout, and one connection per call.


CALL_TIMEOUT_S = 10.0  #: answers take milliseconds, or about 100 ms while it starts 24 workers


class SupervisordRpc:
    """The calls that a launch needs. Each raises OSError if supervisord is unreachable or does not answer."""

    def __init__(self, socket_path: Path, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._path = socket_path
        self.timeout_s = timeout_s

    def states(self) -> dict[str, tuple[str, int]]:
        """Return process name -> (name of its state, pid); the pid is 0 if there is none."""
        processes = self._call("supervisor.getAllProcessInfo")
        return {process["name"]: (process["statename"], process["pid"]) for process in processes}

    def stop_group(self, name: str) -> None:
        """Send every process of the group its stop signal, without waiting for their end."""
        self._call("supervisor.stopProcessGroup", name, False)

    def shutdown(self) -> None:
        """End supervisord, which first stops the programs that still run."""
        self._call("supervisor.shutdown")

    def _call(self, method: str, *arguments: str | bool) -> Any:
        body = xmlrpc.client.dumps(arguments, method).encode()
        connection = _UnixConnection(self._path, self.timeout_s)
        try:
            connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml", "Connection": "close"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise ConnectionError(f"supervisord answered {method} with status {answer.status}")
            return xmlrpc.client.loads(text)[0][0]
        except (http.client.HTTPException, xmlrpc.client.Error, ExpatError) as error:
            raise ConnectionError(f"supervisord did not answer {method}: {error}") from error
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(str(self._path))
        except BaseException:
            self.close()
            raise
