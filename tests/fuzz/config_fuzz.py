#!/usr/bin/env python3
"""Fuzz the config loader, led by coverage: bytes give settings or a ConfigError, and nothing is run.

    pip install atheris            # not among the locked packages: it has wheels for some Pythons only
    tests/fuzz/config_fuzz.py -max_total_time=60 -timeout=10 -rss_limit_mb=1024 [CORPUS]

Every file of configs/ and every golden error is a seed. The exit status is not 0 when something was found
(the input is kept as crash-*, as libFuzzer does), 2 without Atheris.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    import atheris
except ImportError:
    sys.stderr.write("Error: Atheris is not installed. pip install atheris\n")
    sys.exit(2)

with atheris.instrument_imports(include=["tuner.config", "tuner.services", "tuner.bootstrap", "yaml"]):
    from tuner.bootstrap.configs import settings_of
    from tuner.config.load import canonical_json
    from tuner.config.profile import read_profile
    from tuner.core.errors import ConfigError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # it is run as a program
from odd_values import ODD

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
ERRORS = CONFIGS.parent / "tests" / "golden" / "config_errors.txt"  #: one line each, and what is said
_FORBIDDEN = (
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.system",
    "os.fork",
    "socket.connect",
    "socket.bind",
)


class Ran(BaseException):
    """A config was read, and something was started or reached."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _FORBIDDEN:
        raise Ran(f"{event} {arguments!r}")


def mutated(data: bytes, largest: int, seed: int) -> bytes:
    """Another text by its lines: one gone, twice, elsewhere, deeper, or with an odd value; or other bytes."""
    dice = random.Random(seed)
    if dice.random() < 0.3:
        return bytes(atheris.Mutate(data, largest))
    lines = data.split(b"\n")
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = b"  " * dice.randrange(4) + lines[at].lstrip()
        case _:
            key, colon, _value = lines[at].partition(b":")
            lines[at] = key + colon + b" " + dice.choice(ODD).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)[:largest]


def fuzz(folder: Path, arguments: list[str]) -> None:
    """Fuzz in this process, which libFuzzer ends without a word to Python; *folder* stays."""
    config = folder / "s.yaml"

    def one(data: bytes) -> None:
        config.write_bytes(data)
        for read in (lambda: canonical_json(settings_of(config, {})), lambda: read_profile(config)):
            try:
                read()
            except ConfigError as error:
                if not error.problem.strip():
                    raise AssertionError("nothing is said") from error

    sys.addaudithook(_watch)
    atheris.Setup([sys.argv[0], *arguments], one, custom_mutator=mutated)
    atheris.Fuzz()


def main() -> int:
    if sys.argv[1:2] == ["--inside"]:
        fuzz(Path(sys.argv[2]), sys.argv[3:])
    with tempfile.TemporaryDirectory(prefix="config-fuzz-") as name:
        seeds = Path(name, "seeds")
        seeds.mkdir()
        for path in CONFIGS.rglob("*.yaml"):
            (seeds / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
        for number, case in enumerate(ERRORS.read_text("utf-8").split("\n\n")):
            (seeds / f"error-{number}").write_text(case.partition("\n")[0], "utf-8")
        command = [sys.executable, __file__, "--inside", name, "-max_len=8192", *sys.argv[1:], str(seeds)]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
