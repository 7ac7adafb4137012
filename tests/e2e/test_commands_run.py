"""What a study executes, as the kernel sees it: the commands of its config, word by word, and no shell."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.integration]
ODD = [
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "| touch pwned",
    "&& touch pwned",
    "a\nb",
    "%(ENV_HOME)s",
    "",
]
_EXECUTED = re.compile(r'execve\("(?P<program>(?:[^"\\]|\\.)*)", (?P<words>\[.*?\]), 0x[0-9a-f]+ .*= 0$')
_OWN = {"git", "ldconfig", "uname", "lscpu"}  #: what tuner asks where it runs; none of these takes a command


def executed(log: str) -> list[tuple[str, list[str]]]:
    """Program and words of each execve that succeeded; strace writes both as C does, which Python reads."""
    found = []
    for line in log.splitlines():
        match = _EXECUTED.search(line)
        if match is not None:
            words = [word.encode("latin-1").decode() for word in ast.literal_eval(match["words"])]
            found.append((match["program"], words))
    return found


def test_a_study_runs_what_its_config_names_as_lists_of_words_and_no_shell(tuner, strace: str) -> None:
    worker = tuner.folder / "worker;touch pwned"
    worker.write_text(f"#!{sys.executable}\nraise SystemExit(7)\n", encoding="utf-8")
    worker.chmod(0o755)
    hook = [shutil.which("true"), *ODD]
    config = {
        "service": {
            "kind": "script",
            "name": "worker",
            "command": [str(worker), *ODD],
            "environment": {"ODD": "$(touch pwned)\n; touch pwned"},
        },
        "study": {
            "strategy": "all",
            "layouts": ["1x1"],
            "window": "1s",
            "warmup": "1s",
            "repeats": 1,
            "max_attempts": 1,
            "warm_cache": "no",
        },
        "hooks": {"before_study": [hook], "before_launch": [hook], "finished": [hook]},
    }
    (tuner.folder / "s.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    log = tuner.folder / "trace"
    done = subprocess.run(
        [
            strace,
            "-f",
            "-qq",
            "-e",
            "trace=execve",
            "-s",
            "65536",
            "-o",
            log,
            *tuner.program,
            "grid",
            "s.yaml",
        ],
        cwd=tuner.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    ran = executed(log.read_text(encoding="utf-8"))
    named = [words for _, words in ran if words[1:] == ODD]
    others = [(Path(program).name, words) for program, words in ran if words[1:] != ODD]

    assert done.returncode == 3, done.stderr
    n_launches = [words[0] for words in named].count(str(worker))
    assert n_launches >= 1
    assert [words[0] for words in named].count(hook[0]) == 2 + n_launches  # of the study, of each launch
    assert len(named) == 2 + 2 * n_launches
    assert not (tuner.folder / "pwned").exists()
    assert [words for name, words in others if not name.startswith("python") and name not in _OWN] == []
    assert [words for _, words in others if any("touch pwned" in word for word in words)] in (
        [],
        [[sys.executable, str(worker), *ODD]],  # as the kernel runs a script
    )
