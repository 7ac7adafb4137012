"""Axes of a service (interpreter, malloc, pool) and the variants that they make: one value of each, joined by
``+``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tuner.core.errors import ConfigError
from tuner.core.text.command_words import parse_command

ANY = "*"  #: in place of a value: each of them
MOST_VARIANTS = 100
_BETWEEN = "+"


def variants_of(axes: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """The variants that *axes* make, by name: the value of each axis, in their order.

    Raises:
        ConfigError: there are too many.
    """
    if (n := prod(len(values) for values in axes.values())) > MOST_VARIANTS:
        raise ConfigError(f"they make {n} variants, and {MOST_VARIANTS} is the most")
    return {_BETWEEN.join(values): values for values in product(*axes.values())} if axes else {}


def values_of(variant: str) -> tuple[str, ...]:
    """The value of each axis in a *variant* that axes make."""
    return tuple(variant.split(_BETWEEN))


def named(pattern: str, variants: Collection[str]) -> list[str]:
    """Those of *variants* that *pattern* names: ``3.13+jemalloc``, ``3.13+*``."""
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
    """What one value of an axis does to a command."""

    replace: Mapping[str, str] = field(default_factory=dict)  #: words -> what stands there instead
    interpreter: Sequence[str] = ()  #: Python, with its options, that runs it instead
    prepend: Sequence[str] = ()  #: words before it
    append: Sequence[str] = ()  #: words behind it

    def of(self, words: Sequence[str], script: Callable[[str], str | None]) -> tuple[str, ...]:
        """The command *words* with this change.

        Args:
            words: of the command.
            script: the file of a Python script that is named as commands are; None: it is none.

        Raises:
            ConfigError: the command has no such word, or no Python that could be another; its hint is the
                key that is to blame.
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
    """The command *words* run by another *interpreter*; what stands before its Python or script stays."""
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


# Libraries that start threads of their own in a worker process, and what sets how many.


OMP = "omp"  #: the name of the axis that sets them
#: what the axis sets, and what `tuner doctor` looks at: the variables of nearly all numeric libraries
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Library:
    """A library that starts threads."""

    name: str  #: as people know it
    file_words: tuple[str, ...]  #: the name of its file begins with one of them, its folder's before it
    variables: tuple[str, ...]  #: that set its number of threads; of several, the first that is set


#: by the documentation of each
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
    """A library that a worker has loaded, and what its number of threads is set to."""

    library: str  #: its name
    variable: str  #: the one that holds, or would if it were set; empty: it reads none
    value: str | None  #: None: not set, or the environment is hidden

    @property
    def n_threads(self) -> int | None:
        """How many threads work on what it is called for, the caller among them; None: as many as there
        are cores, or not known."""
        first = (self.value or "").split(",")[0].strip()  # OMP_NUM_THREADS may have a number for each level
        return int(first) if first.isdecimal() and int(first) else None


@dataclass(frozen=True, slots=True)
class LoadedPools:
    """Those of one process, or of several that are alike."""

    pools: tuple[Pool, ...] = ()
    is_environment_read: bool = True  #: False: it is hidden, so nobody knows what is set

    @property
    def causes(self) -> tuple[Pool, ...]:
        """Those that start threads, as they are set."""
        return tuple(pool for pool in self.pools if pool.n_threads != 1)

    def n_started(self, n_cores: int) -> int:
        """How many threads they start where one thread calls them, on so many cores."""
        return sum((pool.n_threads or n_cores) - 1 for pool in self.causes)


@dataclass(frozen=True, slots=True)
class Computing:
    """The threads that compute beside the layout's, in all workers, at one moment."""

    n_inner: int
    loaded: LoadedPools = LoadedPools()


def loaded_pools(files: Iterable[str], environment: Mapping[str, str] | None) -> LoadedPools:
    """The libraries among the *files* that a process has loaded, with what its *environment* sets.

    Args:
        files: paths, as /proc/PID/maps has them.
        environment: that the process was started with; None: it is hidden.
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
