"""Speed and size of the study file: python bench/store.py [--few] [FOLDER]

It takes a minute or two and 700 MB below FOLDER; --few omits the file of ten million samples.

Figures are medians of interleaved runs. Bars: listing 100 000 windows takes less than 0.6 s; the time to
store a window of ten minutes does not grow with the file.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from marshal import dumps
from pathlib import Path
from statistics import median
from typing import Any

from tuner.adapters.sqlite import digests as digests
from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.sqlite.sums import list_windows, read_windows
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.window import Window
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

SERVICE = VirtualService({layout: 5.0 + layout.total_threads for layout in divisors_grid(24)})


def ten_minute_window() -> Window:
    store = MemoryStore(virtual_study(SERVICE, n_blocks=1, layouts=tuple(SERVICE.items_per_s)[:1]))
    run_study(VirtualBox(SERVICE).box(), store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    record = store.windows()[0]
    return store.window(record.launch_id, record.index, record.attempt)


def seconds(what: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    what()
    return time.perf_counter() - began_s


def cpu_s(what: Callable[[], object]) -> float:
    began_s = time.process_time()
    what()
    return time.process_time() - began_s


def fill(path: Path, window: Window, n_windows: int) -> list[float]:
    """Keep *window* again and again; seconds for each."""
    layouts = list(SERVICE.items_per_s)
    took_s = []
    with SqliteStore.create(path, virtual_study(SERVICE)) as store:
        launch = None
        for n in range(n_windows):
            layout = layouts[n % len(layouts)]
            if launch is None or n % 3 == 0:
                launch = store_launch(store, n, layout)
            took_s.append(seconds(partial(store.add_window, launch, replace(window, index=n % 3))))
    return took_s


def store_launch(store: SqliteStore, n: int, layout: Layout) -> int:
    return store.add_launch(
        LaunchRecord(n // 22, n % 22, 1, layout, "box", float(n), 0.5, 20.0, True, None, n + 1.0)
    )


def many_windows(path: Path, window: Window, n_windows: int) -> None:
    """A file of *n_windows* windows, few samples each: listing them must not read samples anyway."""
    few = replace(window, samples=window.samples[:2], usage=(window.usage[0], window.usage[-1]))
    with SqliteStore.create(path, virtual_study(SERVICE)) as store:
        store._connection.execute("PRAGMA synchronous = OFF")  # only to fill it
        layouts = list(SERVICE.items_per_s)
        for n in range(n_windows):
            store.add_window(store_launch(store, n, layouts[n % len(layouts)]), few)


def checking(path: Path) -> None:
    """Print the cost of digests in a listing, and of other byte formats for them."""
    with closing(sqlite3.connect(path)) as connection:
        ways: dict[str, Callable[[], object]] = {
            "with its digests": lambda: list_windows(
                digests.check_windows(connection, read_windows(connection))
            ),
            "without": lambda: list_windows(read_windows(connection)),
        }
        took_s = {way: [cpu_s(list_all)] for way, list_all in ways.items()}
        for _ in range(9):
            for way, list_all in ways.items():
                took_s[way].append(cpu_s(list_all))
        print("the same, CPU " + ", ".join(f"{way}: {median(s):.2f} s" for way, s in took_s.items()))
        rows = [window.row for window in islice(read_windows(connection), 10_000)]
    as_marshal: Callable[[Any], object] = lambda row: dumps(row, 2)  # noqa: E731
    for name, as_bytes in {"marshal": as_marshal, "repr": repr}.items():
        row_s = median(cpu_s(lambda: [as_bytes(row) for row in rows]) for _ in range(9)) / len(rows)  # noqa: B023
        print(f"a window's row as bytes, by {name}: {1e6 * row_s:.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description="The study file's figures.")
    parser.add_argument("folder", type=Path, nargs="?", help="for the files; default: a temporary one")
    parser.add_argument("--few", action="store_true", help="without the file of ten million samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        window = ten_minute_window()
        small = Path(folder) / "small.tuner.db"
        took_s = fill(small, window, 300)
        size = small.stat().st_size
        n_samples = 300 * len(window.samples)
        print(f"keep a window of {len(window.samples)} samples: median {median(took_s) * 1e3:.1f} ms")
        print(f"bytes per sample, all tables: {size / n_samples:.1f}")

        listed = Path(folder) / "windows.tuner.db"
        many_windows(listed, window, 100_000)
        times_s, used_s = [], []
        for _ in range(15):
            with SqliteStore.open(listed, read_only=True) as store:  # one that is open keeps its list
                before_s = time.process_time()
                times_s.append(seconds(store.windows))
                used_s.append(time.process_time() - before_s)
        print(f"list 100 000 windows: median {median(times_s):.2f} s, CPU {median(used_s):.2f} s (15 runs)")
        checking(listed)
        if options.few:
            return

        large = Path(folder) / "large.tuner.db"
        n_large = 10_000_000 // len(window.samples)
        took_s = fill(large, window, n_large)
        first, last = median(took_s[:300]), median(took_s[-300:])
        print(
            f"{n_large * len(window.samples) / 1e6:.1f} million samples: {large.stat().st_size / 1e6:.0f} MB"
        )
        print(f"keep a window: first 300 {first * 1e3:.1f} ms, last 300 {last * 1e3:.1f} ms")
        with SqliteStore.open(large, read_only=True) as store:
            records = store.windows()
            last_record = records[-1]
            key = (last_record.launch_id, last_record.index, last_record.attempt)
            read_s = [seconds(lambda: store.samples(*key)) for _ in range(21)]
        list_s = []
        for _ in range(7):
            with SqliteStore.open(large, read_only=True) as store:
                list_s.append(seconds(store.windows))
        print(f"read one window's samples: median {median(read_s) * 1e3:.2f} ms")
        print(f"list its {len(records)} windows: median {median(list_s) * 1e3:.0f} ms")
        with closing(sqlite3.connect(large)) as connection:
            pages = connection.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE name = 'sample_packed'"
            ).fetchone()[0]
            print(f"of which samples: {pages / 1e6:.0f} MB")
            sum_s = seconds(lambda: connection.execute("SELECT avg(load1) FROM sample").fetchone())
        print(f"plain SQL over all samples (avg(load1)): {sum_s:.1f} s")


if __name__ == "__main__":
    main()
