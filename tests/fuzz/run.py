#!/usr/bin/env python3
"""Fuzz the stackwalker: dumps, then symbols; fail on the first finding, show what was reached.

    tests/fuzz/run.py --seconds 1800 --coverage [--corpus DIR ...]

Every minidump and every .sym file below the corpus folders becomes a seed, beside those that are built in
and those that were kept. The exit status is 0 when nothing was found, 1 when something was (the input is kept
and named), 2 without clang or libFuzzer.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import coverage_table
import seeds

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "workers" / "crash_processor" / "stackwalker"
COMPILE = ["-std=gnu11", "-g", f"-I{SOURCES}"]
SANITIZERS = ["-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
PROFILED = ["-O1", "-fsanitize=fuzzer", "-fprofile-instr-generate", "-fcoverage-mapping"]
HUNG_S = 600  # of wall time, for one input; its CPU time is limited in fuzz_target.h
INPUT_MB = 2048
LONGEST_TOLD = 8000  # characters of a finding


@dataclass(frozen=True)
class Target:
    """One libFuzzer program: its name, its C files, and what its inputs are."""

    name: str
    files: tuple[str, ...]
    longest_bytes: int

    def seeds(self, folders: list[Path]) -> Iterable[bytes]:
        return seeds.dump_seeds(folders) if self.name == "dump" else seeds.symbol_seeds(folders)


TARGETS = (
    Target("dump", ("dump_fuzz.c", "dump_mutator.c"), seeds.LONGEST_DUMP_BYTES),
    Target("symbols", ("symbols_fuzz.c",), seeds.LONGEST_SYMBOLS_BYTES),
)


def build(clang: str, folder: Path, target: Target, flags: list[str], suffix: str) -> Path:
    program = folder / f"{target.name}_{suffix}"
    sources = sorted(path for path in SOURCES.glob("*.c") if path.name != "main.c")
    command = [clang, *COMPILE, f"-I{folder}", *flags, *(str(HERE / name) for name in target.files)]
    subprocess.run([*command, *map(str, sources), "-o", str(program)], check=True)
    return program


def write_corpus(corpus: Path, target: Target, folders: list[Path]) -> None:
    """Add the seeds to what a kept corpus holds already."""
    corpus.mkdir(parents=True, exist_ok=True)
    kept = [path.read_bytes() for path in sorted((HERE / "kept" / target.name).glob("*"))]
    for i, seed in enumerate([*kept, *target.seeds(folders)]):
        (corpus / f"seed-{i:04}").write_bytes(seed)


def fuzz_command(
    program: Path, corpus: Path, target: Target, options: argparse.Namespace, extra: list[str]
) -> list[str]:
    return [
        *(str(program), f"-timeout={HUNG_S}", f"-rss_limit_mb={INPUT_MB}", f"-seed={options.seed}"),
        *(f"-max_len={target.longest_bytes}", f"-dict={HERE / target.name}.dict", "-print_final_stats=1"),
        *(f"-artifact_prefix={options.artifacts.resolve()}/{target.name}-", *extra, str(corpus)),
    ]


def run_until(options: argparse.Namespace) -> list[str]:
    return [f"-runs={options.runs}"] if options.runs else [f"-max_total_time={options.seconds}"]


def told(target: Target, output: str) -> str:
    """One line of what libFuzzer's last lines say."""
    figures = dict(re.findall(r"stat::(\w+):\s+(\d+)", output))
    done = re.search(r"Done \d+ runs in (\d+) second", output)
    took = f"in {done[1]} s " if done else ""
    return (
        f"{target.name}: {figures['number_of_executed_units']} inputs {took}"
        f"({figures['average_exec_per_sec']}/s), at most {figures['peak_rss_mb']} MB\n"
    )


def fuzz(chosen: list[Target], folder: Path, corpora: Path, options: argparse.Namespace) -> int:
    """Run the targets at once; how many found something."""
    running = []
    for target in chosen:
        program = build(options.clang, folder, target, SANITIZERS, "fuzz")
        log = (folder / f"{target.name}.log").open("w+", errors="replace")
        command = fuzz_command(program, corpora / target.name, target, options, run_until(options))
        running.append((target, log, subprocess.Popen(command, stderr=log)))
    n_found = 0
    try:
        for target, log, process in running:
            found = process.wait() != 0
            n_found += found
            log.seek(0)
            text = log.read()
            if found:
                sys.stderr.write(text[-LONGEST_TOLD:])
            else:
                sys.stdout.write(told(target, text))
    finally:
        for _, log, process in running:
            process.kill()
            process.wait()
            log.close()
    return n_found


def missing_tool(problem: str) -> int:
    sys.stderr.write(f"Error: {problem}\n")
    return 2


def has_libfuzzer(clang: str, folder: Path) -> bool:
    probe = folder / "probe.c"
    probe.write_text("int LLVMFuzzerTestOneInput(const char *data) { return data ? 0 : 0; }\n")
    command = [clang, *SANITIZERS, str(probe), "-o", str(folder / "probe")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="how long each target runs (default 30)")
    parser.add_argument("--runs", type=int, default=0, help="end after so many inputs, not after a time")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer's random numbers (default 1)")
    parser.add_argument(
        "--target", choices=[target.name for target in TARGETS], help="one of them (default: both)"
    )
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="folders of dumps and .sym files")
    parser.add_argument(
        "--artifacts", type=Path, default=Path("."), help="where a finding is kept (default .)"
    )
    parser.add_argument("--keep", type=Path, help="folder where what was learnt stays, for the next run")
    parser.add_argument(
        "--coverage", action="store_true", help="print what was reached, file by file (llvm-cov)"
    )
    parser.add_argument("--clang", default="clang", help="compiler with libFuzzer (default clang)")
    options = parser.parse_args()
    missing = [str(folder) for folder in options.corpus if not folder.is_dir()]
    if missing:
        parser.error(f"no such folder: {', '.join(missing)}")
    if options.seconds < 1 or options.runs < 0:
        parser.error("--seconds must be 1 or more, --runs 0 or more")
    return options


def main() -> int:
    options = parsed()
    if not shutil.which(options.clang):
        return missing_tool(f"{options.clang} was not found. Install clang with libFuzzer.")
    tools = coverage_table.tools(options.clang) if options.coverage else None
    if options.coverage and not tools:
        return missing_tool(f"llvm-cov and llvm-profdata of {options.clang} were not found. Install llvm.")
    chosen = [target for target in TARGETS if options.target in (None, target.name)]
    reached: list[coverage_table.Profile] = []
    with tempfile.TemporaryDirectory(prefix="stackwalker-fuzz-") as name:
        folder = Path(name)
        if not has_libfuzzer(options.clang, folder):
            return missing_tool(f"{options.clang} cannot link libFuzzer. Install its runtime (compiler-rt).")
        (folder / "fixed_inputs.h").write_text(seeds.fixed_inputs())
        corpora = options.keep or folder / "corpora"
        for target in chosen:
            write_corpus(corpora / target.name, target, options.corpus)
        n_found = fuzz(chosen, folder, corpora, options)
        if tools:
            for target in chosen:
                program = build(options.clang, folder, target, PROFILED, "profiled")
                command = fuzz_command(program, corpora / target.name, target, options, ["-runs=0"])
                reached.append(coverage_table.profile(command, program, folder))
            sys.stdout.write(coverage_table.render(tools, reached, SOURCES, folder))
    sys.stderr.write("The fuzzer found something: see above.\n" if n_found else "Nothing found.\n")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
