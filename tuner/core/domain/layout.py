"""Layouts, variants of a service, grids of layouts, run order, and small subsets of a grid."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import hypot, log2, prod
from random import Random

from tuner.core.errors import ConfigError
from tuner.core.text.command_words import parse_command

_LAYOUT = re.compile(
    r"(?P<processes>\d{1,9})x(?P<threads>\d{1,9}|-)(?:@(?P<variant>[A-Za-z0-9][A-Za-z0-9._+-]*))?", re.ASCII
)
_EXAMPLE = "Write PROCESSESxTHREADS, as 4x6, or 4x6@VARIANT; 8x- where a service has no threads to choose."


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """One point of the grid: a number of processes, of threads per process, and a variant of the service."""

    processes: int  #: worker processes, at least 1
    threads: int  #: threads in each process, at least 1
    variant: str = ""  #: value of a further axis (pool, interpreter); empty for the unchanged service
    #: False: the service has no setting for threads (Celery prefork, uvicorn): threads is 1, printed as "-"
    has_threads: bool = True

    def __post_init__(self) -> None:
        if min(self.processes, self.threads) < 1:
            raise ConfigError(f"layout {self} has nothing to run", hint="Use counts of 1 or more.")
        if not self.has_threads and self.threads > 1:
            raise ValueError(f"{self.threads} threads, and none to choose")

    @property
    def total_threads(self) -> int:
        """Threads in all processes together."""
        return self.processes * self.threads

    @property
    def as_processes(self) -> Layout:
        """The same number of threads as single-threaded processes, for variants that are pools."""
        return Layout(self.total_threads, 1, self.variant, has_threads=False)

    @property
    def as_loops(self) -> Layout:
        """The same processes without threads to choose: event loops, whose other threads run no Python."""
        return Layout(self.processes, 1, self.variant, has_threads=False)

    def __str__(self) -> str:
        plain = f"{self.processes}x{self.threads if self.has_threads else '-'}"
        return f"{plain}@{self.variant}" if self.variant else plain


def whole_cores(cores: float) -> int:
    """Return the number of whole cores in *cores*, at least 1."""
    return max(1, int(cores))


def parse_layout(text: str) -> Layout:
    """Read a layout in its usual form: ``4x6``, ``4x6@threads``, ``8x-``.

    Raises:
        ConfigError: *text* is not a layout, or one of its counts is 0.
    """
    match = _LAYOUT.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a layout", hint=_EXAMPLE)
    has_threads = match["threads"] != "-"
    threads = int(match["threads"]) if has_threads else 1
    return Layout(int(match["processes"]), threads, match["variant"] or "", has_threads)


def parse_layouts(text: str) -> list[Layout]:
    """Read a comma-separated list of layouts, and keep its order.

    Raises:
        ConfigError: a part is not a layout, is empty, or is named twice; or there is none.
    """
    if not text.strip(", "):
        raise ConfigError("no layout is named", hint=_EXAMPLE)
    parts = text.split(",")
    if any(not part.strip() for part in parts[:-1]):  # a comma at the end is allowed
        raise ConfigError(f"a layout is missing between the commas of {text!r}", hint=_EXAMPLE)
    layouts = [parse_layout(part) for part in parts if part.strip()]
    for layout in layouts:
        if layouts.count(layout) > 1:
            raise ConfigError(f"layout {layout} is named twice", hint="Name each layout once.")
    return layouts


def divisors_grid(cores: int) -> list[Layout]:
    """Return layouts with a divisor of *cores* as processes and half, once or twice *cores* threads in all.

    24 cores give 22 layouts. An odd number of cores rounds its half down; one core has no half.
    """
    totals = [total for total in (cores // 2, cores, 2 * cores) if total >= 1]
    return _with_totals(_divisors(cores), totals)


def small_grid(cores: int) -> list[Layout]:
    """Return layouts with processes in the divisors of *cores*, and one thread per core in all."""
    return _with_totals(_divisors(cores), [cores])


def full_grid(cores: int) -> list[Layout]:
    """Return every layout of at most *cores* processes and at most two threads per core in all."""
    return [
        Layout(processes, threads)
        for processes in range(1, cores + 1)
        for threads in range(1, 2 * cores // processes + 1)
    ]


#: grid name -> (cores -> layouts)
GRIDS = {"small": small_grid, "divisors": divisors_grid, "full": full_grid}


def grid_of(name: str, cores: int, *, has_threads: bool = True) -> list[Layout]:
    """Return the layouts of the grid *name* (of `GRIDS`) for *cores*.

    Without threads, only processes are left to choose. Their numbers are the grid's numbers of processes and
    of threads in all, each once: of 24 cores 12, 24, 48 (small), the divisors of 24 and 48
    (divisors), 1 to 48 (full).
    """
    if has_threads:
        return GRIDS[name](cores)
    totals = {total for total in (cores // 2, cores, 2 * cores) if total >= 1}
    counts = {"small": totals, "divisors": {*_divisors(cores), *totals}, "full": range(1, 2 * cores + 1)}
    return [Layout(count, 1, has_threads=False) for count in sorted(counts[name])]


def _divisors(n: int) -> list[int]:
    return [candidate for candidate in range(1, n + 1) if n % candidate == 0]


def _with_totals(processes: Sequence[int], totals: Sequence[int]) -> list[Layout]:
    return sorted(
        {Layout(count, total // count) for count in processes for total in totals if total % count == 0}
    )


# The order of the launches: randomised blocks.

MOST_TIMES = 1_000_000  #: largest number of launches of a layout, windows of a launch or attempts


def blocks(layouts: Sequence[Layout], n_blocks: int, seed: int) -> tuple[tuple[Layout, ...], ...]:
    """Return blocks of all layouts, every block in a new random order.

    So changes of the host over hours affect all layouts equally: they add to the difference between blocks,
    not between layouts. The same layouts and seed give the same order in every version of Python, and a
    larger *n_blocks* only adds blocks at the end, so a resumed or prolonged study continues its order.

    Args:
        layouts: in the order of the study's record; each is named once.
        n_blocks: 0 or more.
        seed: any integer; only its absolute value counts.

    Raises:
        ValueError: no layout, one named twice, or a negative number of blocks.
    """
    if not layouts or len(set(layouts)) < len(layouts):
        raise ValueError("a block has one or more layouts, each once")
    if n_blocks < 0:
        raise ValueError(f"{n_blocks} blocks")
    random = Random(seed)
    return tuple(_shuffle(layouts, random) for _ in range(n_blocks))


def _shuffle(layouts: Sequence[Layout], random: Random) -> tuple[Layout, ...]:
    # Fisher-Yates written out over getrandbits, whose stream is fixed by the Mersenne twister; the use of
    # this stream by Random.shuffle has changed between versions.
    order = list(layouts)
    for last in range(len(order) - 1, 0, -1):
        other = _below(last + 1, random)
        order[last], order[other] = order[other], order[last]
    return tuple(order)


def _below(n: int, random: Random) -> int:
    """Return an integer of 0..n-1 with equal probabilities: bits are drawn until they give one."""
    n_bits = n.bit_length()
    while (value := random.getrandbits(n_bits)) >= n:
        pass
    return value


# A small subset that represents a grid that is too large to measure.


def spread_subset(layouts: Sequence[Layout], n: int) -> list[Layout]:
    """Return at most *n* of *layouts*, far from each other, in their own order.

    Distance is counted in doublings of processes and threads, because throughput changes with these. The
    first two have the most processes, and the fewest processes with the most threads; each further one is the
    farthest from those already chosen, and of equals the first.
    """
    if len(layouts) <= n:
        return list(layouts)
    most_processes = max(layouts, key=lambda layout: (layout.processes, -layout.threads))
    chosen = [most_processes]
    while len(chosen) < n:
        left = [layout for layout in layouts if layout not in chosen]
        if len(chosen) == 1:
            chosen.append(max(left, key=lambda layout: (-layout.processes, layout.threads)))
        else:
            chosen.append(max(left, key=lambda layout: min(_doublings(layout, other) for other in chosen)))
    return [layout for layout in layouts if layout in chosen]


def _doublings(one: Layout, other: Layout) -> float:
    if one.variant != other.variant:
        return float("inf")
    return hypot(log2(one.processes / other.processes), log2(one.threads / other.threads))


# Axes of a service (interpreter, malloc, pool); a variant joins one value of each by ``+``.

ANY = "*"  #: wildcard that matches every value
MOST_VARIANTS = 100
_BETWEEN = "+"


def variants_of(axes: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Return the variants of *axes* by name, each with its values in the order of the axes.

    Raises:
        ConfigError: there are too many.
    """
    if (n := prod(len(values) for values in axes.values())) > MOST_VARIANTS:
        raise ConfigError(f"they make {n} variants, and {MOST_VARIANTS} is the most")
    return {_BETWEEN.join(values): values for values in product(*axes.values())} if axes else {}


def values_of(variant: str) -> tuple[str, ...]:
    """Return the value of each axis in a *variant*."""
    return tuple(variant.split(_BETWEEN))


def match_variants(pattern: str, variants: Collection[str]) -> list[str]:
    """Return those *variants* that match *pattern*: ``3.13+jemalloc``, ``3.13+*``."""
    if ANY not in pattern.split(_BETWEEN):
        return [name for name in variants if name == pattern]
    wanted = values_of(pattern)
    return [
        name
        for name in variants
        if len(values_of(name)) == len(wanted)
        and all(one in (ANY, other) for one, other in zip(wanted, values_of(name), strict=True))
    ]


@dataclass(frozen=True, slots=True)
class CommandChange:
    """The change of a command by one value of an axis."""

    replace: Mapping[str, str] = field(default_factory=dict)  #: word -> its replacement
    interpreter: Sequence[str] = ()  #: Python with its options, which replaces the interpreter
    prepend: Sequence[str] = ()  #: words inserted before the command
    append: Sequence[str] = ()  #: words added after the command

    def of(self, words: Sequence[str], script: Callable[[str], str | None]) -> tuple[str, ...]:
        """Return the command *words* with this change.

        Args:
            words: of the command.
            script: finds the file of a Python script by its command name; None: it is not a script.

        Raises:
            ConfigError: the command has no such word, or no replaceable Python; its hint is the key at
                fault.
        """
        for old in self.replace:
            if old not in words:
                raise ConfigError(f"the command has no word {old}", hint="replace")
        changed = tuple(self.replace.get(word, word) for word in words)
        if self.interpreter:
            changed = _run_by(changed, self.interpreter, script)
        return (*self.prepend, *changed, *self.append)


def _run_by(
    words: Sequence[str], interpreter: Sequence[str], script: Callable[[str], str | None]
) -> tuple[str, ...]:
    """Return *words* run by another *interpreter*; words before the old Python or the script stay."""
    taken = parse_command(words)
    at = len(words) - len(taken.interpreter) - len(taken.words)
    if taken.is_run:
        raise ConfigError(
            f"{' '.join(taken.before)} chooses the Python itself: write a command for this value",
            hint="interpreter",
        )
    if taken.interpreter:
        return (*words[:at], *interpreter, *words[at + 1 :])
    path = script(words[at]) if at < len(words) else None
    if path is None:
        raise ConfigError(
            f"{words[at] if at < len(words) else 'the command'} is no script of Python's that is found here:"
            " write a command for this value",
            hint="interpreter",
        )
    return (*words[:at], *interpreter, path, *words[at + 1 :])


# Libraries that start threads in a worker process, and the variables that set their number.

OMP = "omp"  #: name of the axis that sets `VARIABLES`
#: variables of nearly all numeric libraries, which the axis sets and `tuner doctor` checks
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Library:
    """A library that starts threads."""

    name: str  #: usual name of the library
    file_words: tuple[str, ...]  #: beginnings of its file's name, some preceded by the folder's name
    variables: tuple[str, ...]  #: variables that set its number of threads, by precedence


#: as documented by each library
LIBRARIES = (
    Library(
        "OpenBLAS",
        ("libopenblas", "libscipy_openblas"),
        ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
    ),
    Library("MKL", ("libmkl_",), ("MKL_NUM_THREADS", "OMP_NUM_THREADS")),
    Library("BLIS", ("libblis",), ("BLIS_NUM_THREADS", "OMP_NUM_THREADS")),
    Library("numexpr", ("numexpr/interpreter",), ("NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS")),
    Library("torch", ("libtorch_cpu",), ("OMP_NUM_THREADS",)),
    Library("ONNX Runtime", ("libonnxruntime", "onnxruntime_pybind11_state"), ()),
    Library("OpenMP", ("libgomp", "libiomp5", "libomp"), ("OMP_NUM_THREADS",)),
)


@dataclass(frozen=True, slots=True)
class Pool:
    """A library that a worker has loaded, and its setting of the number of threads."""

    library: str  #: name of the library
    variable: str  #: variable that is set, or the one that could be; empty: the library reads none
    value: str | None  #: value of the variable; None: not set, or the environment is not readable

    @property
    def n_threads(self) -> int | None:
        """The number of threads that work on a call, its caller included; None: the number of cores,
        or unknown."""
        first = (self.value or "").split(",")[0].strip()  # OMP_NUM_THREADS may have a number for each level
        return int(first) if first.isdecimal() and int(first) else None


@dataclass(frozen=True, slots=True)
class LoadedPools:
    """The libraries of one process, or of several equal processes."""

    pools: tuple[Pool, ...] = ()
    is_environment_read: bool = True  #: False: the environment is not readable, so the value is unknown

    @property
    def causes(self) -> tuple[Pool, ...]:
        """The libraries that start threads with these settings."""
        return tuple(pool for pool in self.pools if pool.n_threads != 1)

    def n_started(self, n_cores: int) -> int:
        """Return the number of threads that they start for one calling thread on *n_cores* cores."""
        return sum((pool.n_threads or n_cores) - 1 for pool in self.causes)


@dataclass(frozen=True, slots=True)
class Computing:
    """The computing threads in addition to the layout's, in all workers, at one moment."""

    n_inner: int
    loaded: LoadedPools = LoadedPools()


def loaded_pools(files: Iterable[str], environment: Mapping[str, str] | None) -> LoadedPools:
    """Return the libraries among the *files* that a process has loaded, with their settings.

    Args:
        files: paths of /proc/PID/maps.
        environment: of the process at its start; None: it is not readable.
    """
    ends = {tuple(file.rsplit("/", 2)[-2:]) for file in files}
    known = environment or {}
    found = []
    for library in LIBRARIES:
        if any(_is_of(library, end) for end in ends):
            names = library.variables
            variable = next((name for name in names if known.get(name)), names[0] if names else "")
            found.append(Pool(library.name, variable, known.get(variable) or None))
    return LoadedPools(tuple(found), is_environment_read=environment is not None)


def _is_of(library: Library, end: tuple[str, ...]) -> bool:
    return any(text.startswith(word) for word in library.file_words for text in (end[-1], "/".join(end)))
