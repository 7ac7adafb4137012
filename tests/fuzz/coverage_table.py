"""What a fuzzer's inputs reached, as a table: lines and branches of every file."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tools:
    """The two programs that read clang's profiles."""

    cov: str
    profdata: str


@dataclass(frozen=True)
class Profile:
    """What one program did."""

    program: Path
    raw: Path


def tools(clang: str) -> Tools | None:
    """llvm-cov and llvm-profdata of the same version as the compiler, or None."""
    result = subprocess.run([clang, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)", result)
    names = [f"-{version[1]}", ""] if version else [""]
    found = [shutil.which(f"llvm-{tool}{suffix}") for suffix in names for tool in ("cov", "profdata")]
    pairs = zip(found[::2], found[1::2], strict=True)
    return next((Tools(cov, profdata) for cov, profdata in pairs if cov and profdata), None)


def profile(command: list[str], program: Path, folder: Path) -> Profile:
    """Run a profiled program over its inputs."""
    raw = folder / f"{program.name}.profraw"
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(raw)}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return Profile(program, raw)


def render(tools: Tools, reached: list[Profile], sources: Path, folder: Path) -> str:
    """A table in Markdown: reached of all, for lines and branches; below it the sum."""
    merged = folder / "all.profdata"
    raws = [str(profile.raw) for profile in reached]
    subprocess.run([tools.profdata, "merge", "-sparse", *raws, "-o", str(merged)], check=True)
    first, *others = [str(profile.program) for profile in reached]
    objects = [word for other in others for word in ("-object", other)]
    command = [
        tools.cov,
        "export",
        "-summary-only",
        f"-instr-profile={merged}",
        first,
        *objects,
        str(sources),
    ]
    data = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (report,) = data["data"]
    rows = sorted((Path(file["filename"]).name, file["summary"]) for file in report["files"])
    lines = ["", "| file | lines | branches |", "|---|---|---|"]
    lines += [row(name, summary) for name, summary in rows]
    return "\n".join([*lines, row("all", report["totals"]), ""])


def row(name: str, summary: dict[str, dict[str, float]]) -> str:
    cells = [share(summary[what]) for what in ("lines", "branches")]
    return f"| {name} | {' | '.join(cells)} |"


def share(counted: dict[str, float]) -> str:
    if not counted["count"]:
        return "none"
    return f"{counted['covered']} of {counted['count']} ({counted['percent']:.0f} %)"
