"""Studies for whoever shows one: real ones, one with hostile names, a large one."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from tuner.app import study_queries
from tuner.app.collection import pause_collection
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import RankingOptions
from tuner.core.ranking.ranking import rank

STUDIES = Path(__file__).resolve().parents[1] / "bench" / "studies"
RECORDED = sorted(path.name for path in STUDIES.glob("*.tuner.db"))
BEGAN_S = 1_790_000_000.0
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=1">',
    "</style></script><svg onload=alert(1)>{{ 7 * 7 }}{% raw %}",
    "a\u202egnp.exe\u200b\x1b[31m\x00\ud800",
    '=HYPERLINK("http://example.invalid")',
    "x" * 10_000,
)


def recorded(name: str, folder: Path) -> Path:
    """A study that was measured, copied into *folder*."""
    return Path(shutil.copy(STUDIES / name, folder / name))


def overview_of(file: Path) -> Overview:
    """As `tuner report` asks for it."""
    return study_queries.overview(file, question=RankingOptions(costs=("load", "memory")))


@cache
def recorded_overview(name: str) -> Overview:
    """The overview of a study that was measured, for all who only read it."""
    with tempfile.TemporaryDirectory() as folder:
        return overview_of(recorded(name, Path(folder)))


def hostile(overview: Overview) -> Overview:
    """*overview* with every text that comes from elsewhere replaced by one that means harm."""
    bad = " ".join(HOSTILE)
    reasons = tuple(VoidReason(text, text) for text in HOSTILE)
    windows = [replace(overview.windows[0], void=reasons), *overview.windows[1:]]
    launches = [
        (number, replace(launch, error=HOSTILE[n % len(HOSTILE)] if n < 6 else None, box=bad))
        for n, (number, launch) in enumerate(overview.launches)
    ]
    study = replace(
        overview.study,
        service=bad,
        provenance=Provenance(host=bad, made_by=bad, simulated=bad, others={text: text for text in HOSTILE}),
        config=StoredConfig(
            '{"service": {"command": ["</pre><script>alert(1)</script>", "\\u202e"],'
            ' "cautions": {"x": "<b>"}}}'
        ),
    )
    ranking = replace(overview.ranking, notes=HOSTILE, settling=HOSTILE)
    return replace(
        overview, name=bad, study=study, ranking=ranking, windows=windows, launches=launches, explanation=bad
    )


#: of the windows of a large study, those that its ranking is made of: to rank all of them takes a second
N_RANKED_BLOCKS = 20


@cache
@pause_collection()
def large(n_layouts: int = 500, n_windows: int = 100_000) -> Overview:
    """Made up, of so many layouts and windows; every hundredth is void. Its first blocks are ranked."""
    layouts = tuple(Layout(1 + n // 25, 1 + n % 25) for n in range(n_layouts))
    noise = random.Random(5)
    n_blocks = n_windows // n_layouts
    study = StudyRecord(
        service="large", strategy="all", layouts=layouts, cores=24, box_cores=24.0, window_s=60, warmup_s=5,
        n_blocks=n_blocks, windows_per_launch=1, seed=1, budget_s=None, created_wall_s=BEGAN_S,
        config=StoredConfig("{}"), provenance=Provenance(host="stage-1"),
    )  # fmt: skip
    windows, launches = [], []
    for number in range(n_windows):
        layout, block, began_s = layouts[number % n_layouts], number // n_layouts, BEGAN_S + 70 * number
        per_s = 40 * layout.total_threads**0.3 * (1 + 0.03 * noise.gauss(0, 1))
        disturbed = VoidReason("disturbed", "other processes on the host used 0.80 core on average")
        void = (disturbed,) if number % 100 == 7 else ()
        settled = {"running_after_s": 0.2, "warmup_s": 5.0, "settled": True, "ended_wall_s": began_s + 68}
        place = number % n_layouts
        launches.append((number, LaunchRecord(block, place, 1, layout, "stage-1", began_s, **settled)))
        windows.append(
            WindowRecord(
                launch_id=number, block=block, layout=layout, box="stage-1", index=0, attempt=1,
                started_wall_s=began_s + 6, length_s=60.0, n_done=round(60 * per_s), n_failed=0,
                load1_mean=layout.total_threads / 3, load1_max=layout.total_threads / 2,
                n_active_mean=layout.total_threads / 3, service_cpu_s=40.0, tuner_cpu_s=1.0, backend_cpu_s=0,
                foreign_cpu_s=1.0, steal_s=0.0, pss_bytes=3e7 * layout.processes, void=void,
            )
        )  # fmt: skip
    n_ranked = N_RANKED_BLOCKS * n_layouts
    ranking = rank(study, windows[:n_ranked], launches=[launch for _, launch in launches[:n_ranked]])
    return Overview("large.tuner.db", study, ranking, launches, windows, "Nothing is known of it.")
