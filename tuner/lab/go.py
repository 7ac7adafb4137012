"""Go: whether it is here, and its programs, built when they are first needed and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.processes.signals import running_in_own_group
from tuner.core.errors import ConfigError

_USUAL_ROOT = "/usr/local/go"  #: where Go's own archives go, which no PATH has by itself
_ASK_WAIT_S = 60.0
_BUILD_WAIT_S = 600.0  #: the first build compiles Go's standard library as well
_MOST_WORDS = 400  #: characters of what a failed build said last
#: nothing is downloaded, neither a module nor a toolchain, and nothing depends on the user's own settings
_SETTINGS = {
    "GOFLAGS": "-mod=mod",
    "GOTOOLCHAIN": "local",
    "GOPROXY": "off",
    "GOWORK": "off",
    "GO111MODULE": "on",
    "CGO_ENABLED": "0",
    "GOENV": "off",
    "GOOS": "",
    "GOARCH": "",
    "GOEXPERIMENT": "",
}


@dataclass(frozen=True, slots=True)
class Go:
    """A Go that can build."""

    program: str
    version: str  #: such as 1.26.8


def go_here() -> Go | None:
    """The Go of this box: on the PATH, else in GOROOT, by default the usual place; None: there is none.

    Raises:
        ConfigError: it does not say its version.
    """
    root = os.environ.get("GOROOT") or _USUAL_ROOT
    program = shutil.which("go") or shutil.which(os.path.join(root, "bin", "go"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "env", "GOVERSION"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_WAIT_S,
            check=True,
            env={**os.environ, **_SETTINGS},
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"cannot read the version of {program}", hint="Use a Go that is on the PATH, or repair it."
        ) from error
    return Go(program, done.stdout.strip().removeprefix("go"))


def build_program(source: Path, go: Go, tell: Callable[[str], None]) -> Path:
    """The program that *go* makes of *source*, one file of standard Go; built unless the cache has it.

    Another source or another Go is another program; who reads the cache sees all of one or nothing.

    Raises:
        ConfigError: it does not build, or the cache cannot be written.
    """
    try:
        key = hashlib.sha256(source.read_bytes() + b"\0" + go.version.encode()).hexdigest()[:16]
        folder = _cache(os.environ)
        program = folder / f"{source.stem}-{key}"
        if program.exists():
            return program
        tell(f"building {source.name} with Go {go.version}; it is kept in {program}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as building:
            made = Path(building) / "program"
            _build(source, go, made)
            made.replace(program)
    except (OSError, RuntimeError) as error:  # Path.home() may know none
        raise ConfigError(
            f"{source.name} cannot be built: {error}", hint="Point XDG_CACHE_HOME to a folder of yours."
        ) from error
    return program


def _cache(environment: Mapping[str, str]) -> Path:
    named = environment.get("XDG_CACHE_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path.home() / ".cache"  # a relative one does not count
    return root / "tuner"


def _build(source: Path, go: Go, made: Path) -> None:
    with tempfile.TemporaryFile() as errors:
        try:
            with running_in_own_group(
                [go.program, "build", "-trimpath", "-o", str(made), str(source)],
                cwd=made.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **_SETTINGS},
            ) as process:
                process.wait(_BUILD_WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{source.name} was not built in {_BUILD_WAIT_S:.0f} s") from error
        errors.seek(0)
        err = errors.read()
    if process.returncode != 0:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        text = f": {lines[-1][:_MOST_WORDS]}" if lines else ""
        raise ConfigError(f"{source.name} does not build with Go {go.version}{text}")
