"""What the kernel tells of processes that it ended for lack of memory."""

from __future__ import annotations

from pathlib import Path

from tuner.adapters.proc.cgroup import n_oom_kills


def test_the_kernels_count_is_read_and_a_kernel_without_one_has_none(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 3\nballoon_inflate 0\n")

    assert n_oom_kills(tmp_path) == 3
    (tmp_path / "vmstat").write_text("nr_free_pages 1\n")
    assert n_oom_kills(tmp_path) is None
    assert n_oom_kills(tmp_path / "none") is None
