"""Libraries that start threads of their own in a worker process, and what sets how many.

By default each starts as many as there are cores: OpenBLAS in each process, OpenMP for each thread that calls
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
