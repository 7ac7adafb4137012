"""Workers that misbehave, typed as an ordinary user: each is named, stopped and gone."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.integration]
STUDY = (
    "study: {strategy: all, layouts: [1x1], window: 1s, warmup: 1s, repeats: 1, max_attempts: 1,"
    " warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}\n"
)
WORKERS = {
    "exits 0 at once": ("[sh, -c, 'exit 0']", "died at start: exit status 0; it logged nothing"),
    "prints binary": ("[sh, -c, 'head -c 4000 /dev/urandom; exit 5']", "exit status 5; its log ends: "),
    "daemonises": ("[setsid, -f, sleep, '600']", "died at start: exit status 0; it logged nothing"),
    "hangs at start": ("[sleep, '600']", "no item finished in the window"),
    "ignores SIGTERM": (
        "[sh, -c, \"trap '' TERM; while :; do sleep 1; done\"]",
        "1 of 1 processes of 1x1 did not stop within 1 s of TERM and were killed",
    ),
}


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_that_misbehaves_is_named_and_gone(ordinary, name: str) -> None:
    command, said = WORKERS[name]
    (ordinary.folder / "s.yaml").write_text(
        f"service: {{kind: script, name: worker, command: {command}, stop: {{wait: 1s}}}}\n{STUDY}"
    )

    done = ordinary("grid", "s.yaml")

    assert done.returncode == 3, done.stderr
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert all(line.isprintable() for line in done.stderr.splitlines())
