"""Facts about the host and software of a study, as text, without environment variables or command lines."""

from __future__ import annotations

import getpass
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from tuner import __version__
from tuner.adapters.proc.cgroup import launch_cgroups
from tuner.adapters.proc.cores import describe_host
from tuner.adapters.worker_interpreter import interpreter_facts

_ASK_WAIT_S = 20.0


def worker_facts(
    spawn_path_command: Sequence[str] | None,
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: str | None = None,
) -> dict[str, str]:
    """What of its workers can be found out; what cannot is left out.

    Args:
        spawn_path_command: prints as JSON how the worker starts its children, where the worker knows.
        command: what starts a worker: its interpreter is asked whether it has a GIL.
        environment: what the worker finds beside tuner's own environment.
        directory: where it runs.
    """
    spawning = _spawn_path(spawn_path_command, {**os.environ, **environment}) if spawn_path_command else {}
    facts = {**spawning, **interpreter_facts(command, environment, directory)}
    return {name: value for name, value in facts.items() if value}


def provenance() -> dict[str, str]:
    """What can be found out of the box and of tuner; what cannot is left out."""
    facts = {
        **describe_host(),
        "tuner": __version__,
        "launch_cgroup": launch_cgroups().sentence,
        "os": _os_name(),
        **_hardware(),
        "machine": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "supervisor": _version_of("supervisor"),
        "user": _user(),
        "git_revision": _git_revision(),
    }
    return {name: value for name, value in facts.items() if value}


def _os_name() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def _hardware() -> dict[str, str]:
    """What of the CPUs a study depends on and /proc tells differently on every machine."""
    import psutil  # 40 ms: only a new study pays for it

    frequency, physical = psutil.cpu_freq(), psutil.cpu_count(logical=False)
    return {
        "physical_cores": str(physical or ""),
        "cpu_frequency": f"{frequency.current:.0f} MHz" if frequency else "",
        "swap": f"{psutil.swap_memory().total / (1 << 30):.1f} GiB",
    }


def _version_of(package: str) -> str:
    with suppress(PackageNotFoundError):
        return version(package)
    return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _git_revision() -> str:
    """The commit of the current folder, ``+`` behind it when files differ from it."""
    revision = _answer(["git", "rev-parse", "HEAD"])
    if not revision:
        return ""
    changed = _answer(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{revision}+" if changed else revision


def _spawn_path(command: Sequence[str], environment: Mapping[str, str]) -> Mapping[str, str]:
    with suppress(ValueError):
        found = json.loads(_answer(command, environment) or "{}")
        if isinstance(found, dict):
            return {f"worker_{name}": str(value) for name, value in found.items()}
    return {}


def _answer(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What a command prints; nothing when it fails, is not there or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=_ASK_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
