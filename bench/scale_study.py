"""Studies of any size for `bench/scale.py`: the store writes simulated launches repeatedly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from random import Random

from tuner.adapters.sqlite.store import SqliteStore
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.window import VoidReason, Window

PROFILE = Path(__file__).resolve().parent.parent / "configs" / "profiles" / "socorro-2014.yaml"
_STOP_S = 2.0
_LAUNCH_SD, _WINDOW_SD = 0.015, 0.05  #: of log throughput
_VOID_EVERY = 50  #: windows
_VOID = VoidReason("disturbed", "others used 1.20 cores: more than 0.24 of 24 are allowed")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a study is to be."""

    n_windows: int
    n_samples: int  #: about, in all windows together
    layouts: Sequence[Layout]
    windows_per_launch: int = 5
    strategy: str = "all"

    @property
    def window_s(self) -> int:
        """Length of a window that has its part of the samples, seconds; at least 10."""
        return max(10, round(self.n_samples / self.n_windows) - 1)


@dataclass(frozen=True, slots=True)
class _Template:
    launch: LaunchRecord
    window: Window


def simulated_study(path: Path, layouts: Sequence[Layout], *, cores: int, window_s: int) -> None:
    """One launch of each layout, one window each, as `tuner grid --simulate` takes them."""
    asked = ["--strategy", "all", "--repeats", "1", "--window", f"{window_s}s", "--warmup", "10s"]
    of = ["--cores", str(cores), "--layouts", ",".join(map(str, layouts))]
    command = [str(Path(sys.executable).with_name("tuner")), "grid", "--simulate", str(PROFILE), *of, *asked]
    done = subprocess.run(
        [*command, "--study", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")


def write_study(path: Path, size: Size, *, cores: int = 24, seed: int = 1) -> None:
    """Write a study of that *size* into the new file *path*, as a store keeps a real one.

    Each launch is one of a simulated study with throughput drawn anew; a window in fifty is void and taken
    again. Samples, usage and clocks are of the simulated window.
    """
    simulated = path.with_suffix(".simulated")
    simulated_study(simulated, size.layouts, cores=cores, window_s=size.window_s)
    with SqliteStore.open(simulated, read_only=True) as store:
        templates = _templates(store)
        study = store.study()
    simulated.unlink()
    n_launches = -(-size.n_windows // size.windows_per_launch)
    study = replace(
        study,
        strategy=size.strategy,
        kind="none" if size.strategy == "all" else "strict",
        n_blocks=-(-n_launches // len(templates)) if size.strategy == "all" else 0,
        windows_per_launch=size.windows_per_launch,
        min_window_s=None if size.strategy == "all" else study.window_s,
    )
    with SqliteStore.create(path, study, lasting=False) as store:
        _fill(store, study, templates, size, Random(seed))


def _templates(store: SqliteStore) -> dict[Layout, _Template]:
    launches = dict(store.launches())
    return {
        one.layout: _Template(launches[one.launch_id], store.window(one.launch_id, one.index, one.attempt))
        for one in store.windows()
        if one.block >= 0
    }


def _fill(
    store: SqliteStore, study: StudyRecord, templates: dict[Layout, _Template], size: Size, random: Random
) -> None:
    layouts, now_s, n_windows, block = list(templates), study.created_wall_s, 0, -1
    while n_windows < size.n_windows:
        block += 1
        random.shuffle(layouts)
        for position, layout in enumerate(
            layouts[: -(-(size.n_windows - n_windows) // size.windows_per_launch)]
        ):
            template = templates[layout]
            launch = replace(template.launch, block=block, position=position, started_wall_s=now_s)
            launch_id = store.add_launch(replace(launch, ended_wall_s=None))
            now_s += (launch.running_after_s or 0.0) + (launch.warmup_s or 0.0)
            level = exp(random.gauss(0, _LAUNCH_SD))
            for index in range(size.windows_per_launch):
                n_windows += 1
                attempt = 1
                if n_windows % _VOID_EVERY == 0:
                    store.add_window(
                        launch_id, _drawn(template.window, now_s, level, index, 1, random, (_VOID,))
                    )
                    now_s += template.window.length_s
                    attempt = 2
                store.add_window(launch_id, _drawn(template.window, now_s, level, index, attempt, random))
                now_s += template.window.length_s
            now_s += _STOP_S
            store.finish_launch(launch_id, replace(launch, ended_wall_s=now_s))


def _drawn(
    window: Window, now_s: float, level: float, index: int, attempt: int, random: Random,
    void: tuple[VoidReason, ...] = (),
) -> Window:  # fmt: skip
    n_done = max(1, round(window.n_done * level * exp(random.gauss(0, _WINDOW_SD))))
    return replace(window, index=index, attempt=attempt, started_wall_s=now_s, n_done=n_done, void=void)


if __name__ == "__main__":  # python bench/scale_study.py FILE WINDOWS SAMPLES [STRATEGY]
    from tuner.core.domain.layout import divisors_grid

    file, n_windows, n_samples, *strategy = sys.argv[1:]
    write_study(
        Path(file), Size(int(n_windows), int(n_samples), divisors_grid(24), strategy=(strategy or ["all"])[0])
    )
