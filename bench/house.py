"""Measures of the structure of tuner/: python bench/house.py [--json FILE] [--no-launch]

Static measures are read from the source and from the import graph. The path from `--cores` to supervisord's
configuration, and the number of loaded modules, come from one real launch that ends where the configuration
is written. Goals are in brackets.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tuner"
#: a default, the names it is assigned to, and its value
DEFAULTS = {
    "margin of 2 %": (("within", "within_ratio", "WITHIN"), 0.02),
    "confidence of 95 %": (("confidence", "CONFIDENCE"), 0.95),
    "stop wait of 60 s": (("wait", "stop_wait_s"), 60.0),
    "window of 10 min": (("window", "window_s", "WINDOW_S"), 600.0),
}
#: a probe and a clock, by the words that name them
PROBE_WORDS, CLOCK_WORDS = ("statsd",), ("gil_waking",)
EVERY_CLOCK_WORDS = ("gil_wait", "gil_waits")  #: these also name the code that samples it
#: folders that use one probe: known services, its warnings, its protocol. A new probe needs none of them
USERS_OF_PROBES = ("services", "core/messages", "core/text", "doctor")
#: folders that read what a clock means, or simulate it. A new clock is measured and kept without them
USERS_OF_CLOCKS = ("core/model", "lab", "reports", "adapters/virtual")
LAUNCH = """
import sys
from pathlib import Path
from tuner.adapters.supervisord import config

def stop(*_, **__):
    frame, path = sys._getframe(1), []
    while frame is not None:
        path.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    here = [one for one in reversed(path) if "/tuner/" in one[0] and "site-packages/typer" not in one[0]]
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "tuner")
    Path(sys.argv[1]).write_text(repr((here, loaded)))
    raise KeyboardInterrupt

config.render_config = stop
from tuner.cli import run
run(sys.argv[2:])
"""


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    value: str
    goal: str
    where: Sequence[str] = ()


def parsed() -> dict[Path, ast.Module]:
    """Every source of tuner, as a tree."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def shown(path: Path, line: int = 0) -> str:
    """Where it is, from the root of the project."""
    return f"{path.relative_to(ROOT)}:{line}" if line else str(path.relative_to(ROOT))


def path_to_supervisord() -> list[Figure]:
    """Frames and files of one launch, down to the configuration, and the modules that are loaded then."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name, "path")
        words = ["grid", "--cores", "1", "--layouts", "1x1", "--quick", "--study", f"{name}/s.tuner.db"]
        subprocess.run(
            [sys.executable, "-c", LAUNCH, str(result), *words, "--", sys.executable, "-c", "1", "{threads}"],
            cwd=name,
            env={"PATH": "/usr/bin:/bin", "TUNER_LOCK": f"{name}/lock", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=120,
            check=False,
        )
        path, loaded = ast.literal_eval(result.read_text())
    files = [file for file, _ in groupby(file for file, _ in path)]
    returns = len(files) - len(set(files))
    steps = [f"{Path(file).relative_to(ROOT)} {function}" for file, function in path]
    return [
        Figure("frames from the command line to render_config", str(len(path)), "<= 12", steps),
        Figure("files on that path", str(len(set(files))), "<= 6"),
        Figure("returns into a file that was left", str(returns), "<= 1"),
        Figure("modules of tuner loaded for one launch", str(len(loaded)), "<= 150"),
    ]


def reparsings(trees: dict[Path, ast.Module]) -> Figure:
    """Places that parse the JSON text of a study's config."""
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "json.loads":
                words = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
                words |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                if words & {"config", "canonical", "canonical_json", "filled"}:
                    found.append(shown(path, node.lineno))
    return Figure("parsings of a stored config", str(len(found)), "1", found)


def places_of_defaults(trees: dict[Path, ast.Module]) -> Iterator[Figure]:
    """Places that write a default's value out."""
    for name, (names, value) in DEFAULTS.items():
        found = [
            shown(path, line)
            for path, tree in trees.items()
            for word, constant, line in _assigned(tree)
            if word in names and constant == value
        ]
        yield Figure(f"places of a default: {name}", str(len(found)), "1", found)


def _assigned(tree: ast.Module) -> Iterator[tuple[str, object, int]]:
    """Name, value and line of each constant that a name, a field or a parameter gets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Constant):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value.value, node.lineno
        elif isinstance(node, ast.FunctionDef):
            plain = node.args.posonlyargs + node.args.args
            pairs = list(zip(plain[len(plain) - len(node.args.defaults) :], node.args.defaults, strict=True))
            keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for parameter, default in (*pairs, *keywords):
                if isinstance(default, ast.Constant):
                    yield parameter.arg, default.value, default.lineno


def files_that_name(words: Sequence[str], suffixes: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """Files of tuner that hold one of *words*, those of the folders *without* left out."""
    left_out = tuple(PACKAGE / folder for folder in without)
    paths = (path for path in sorted(PACKAGE.rglob("*")) if path.suffix in suffixes)
    paths = (path for path in paths if not any(path.is_relative_to(folder) for folder in left_out))
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths)
    return [shown(path) for path, text in texts if any(word in text for word in words)]


def _folder(module: str) -> str:
    """The package that holds *module*; of a package, itself: its code stands in its folder."""
    return module if ROOT.joinpath(*module.split(".")).is_dir() else module.rpartition(".")[0]


def circles(graph: grimp.ImportGraph) -> list[str]:
    """Folders of tuner that import each other, directly or by way of others: one line per circle."""
    edges: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = _folder(module), _folder(imported)
            if one != other and imported.startswith("tuner."):
                edges[one].add(other)
    return [" <-> ".join(sorted(one)) for one in _components(edges) if len(one) > 1]


def _components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components: Tarjan 1972."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(set(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def class_names(trees: dict[Path, ast.Module]) -> Figure:
    """Class names that two files of one package define."""
    where: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, tree in trees.items():
        package = path.relative_to(PACKAGE).parts[0]
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                where[package, node.name].append(shown(path, node.lineno))
    twice = {key: places for key, places in where.items() if len(places) > 1}
    lines = [f"{name}: {', '.join(places)}" for (_, name), places in sorted(twice.items())]
    return Figure("class names defined twice in a package", str(len(twice)), "0", lines)


def cli_imports(graph: grimp.ImportGraph) -> Figure:
    """Imports of adapters by the command line."""
    found = sorted(
        f"{module} -> {imported}"
        for module in graph.modules
        if module.startswith("tuner.cli")
        for imported in graph.find_modules_directly_imported_by(module)
        if imported.startswith("tuner.adapters")
    )
    return Figure("imports of adapters by the command line", str(len(found)), "0", found)


def figures(*, with_launch: bool) -> Iterator[Figure]:
    """Every line of the table."""
    trees = parsed()
    graph = grimp.build_graph("tuner")
    if with_launch:
        yield from path_to_supervisord()
    yield reparsings(trees)
    yield from places_of_defaults(trees)
    yield cli_imports(graph)
    folder, n_most = Counter(path.parent for path in trees if path.name != "__init__.py").most_common(1)[0]
    yield Figure("most files in one folder", str(n_most), "<= 25", [shown(folder)])
    found = circles(graph)
    yield Figure("circles of folders", str(len(found)), "<= 3", found)
    every = files_that_name(PROBE_WORDS, (".py",))
    yield Figure("files that name a probe at all (statsd)", str(len(every)), "none", every)
    of_probe = files_that_name(PROBE_WORDS, (".py",), USERS_OF_PROBES)
    yield Figure("files to touch for a probe (statsd)", str(len(of_probe)), "1", of_probe)
    every = files_that_name(EVERY_CLOCK_WORDS, (".py", ".sql"))
    yield Figure("files that name a clock at all (waits for the GIL)", str(len(every)), "none", every)
    of_clock = files_that_name(CLOCK_WORDS, (".py", ".sql"), USERS_OF_CLOCKS)
    yield Figure("files to touch for a clock (waking for the GIL)", str(len(of_clock)), "<= 5", of_clock)
    yield class_names(trees)
    n_lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in trees)
    yield Figure("Python files", str(len(trees)), "about 400")
    yield Figure("lines of Python", str(n_lines), "about 65000")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures and their places")
    parser.add_argument("--no-launch", action="store_true", help="static measures only")
    options = parser.parse_args()
    found = list(figures(with_launch=not options.no_launch))
    for one in found:
        print(f"{one.name:52}{one.value:>8}   ({one.goal})")
    if options.json:
        options.json.write_text(json.dumps([one._asdict() for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
