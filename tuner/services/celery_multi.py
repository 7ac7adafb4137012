"""``celery multi start``: daemons beside each other, as the node in the foreground that each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.text.command_words import parse_command

#: of daemons: a node in the foreground needs none, and tuner reads what it prints
_OF_DAEMONS = ("--pidfile", "--logfile", "--logdir", "--rundir", "-f")


@dataclass(frozen=True, slots=True)
class Node:
    """What each of the daemons is."""

    words: tuple[str, ...]
    n_nodes: int
    left_out: tuple[str, ...]


def node_of_multi(words: Sequence[str]) -> Node | None:
    """The command of one node; None: *words* are none of ``celery multi start``.

    Options for single nodes (``-c:w1 3``) are left out. As in Celery a long option has its value after ``=``.
    """
    taken = parse_command(words)
    if taken.program != "celery" or "multi" not in taken.words:
        return None
    at = len(words) - len(taken.words) + taken.words.index("multi")
    rest = list(words[at + 1 :])
    if not rest or rest.pop(0) not in ("start", "restart"):
        return None
    names: list[str] = []
    options: list[str] = []
    left_out: list[str] = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            names.append(word)
            continue
        one = [word]
        if not word.startswith("--") and rest and not rest[0].startswith("-"):
            one.append(rest.pop(0))
        name = word.partition("=")[0]
        (left_out if name in _OF_DAEMONS or ":" in name else options).extend(one)
    n_nodes = int(names[0]) if len(names) == 1 and names[0].isdecimal() else len(names)
    return Node((*words[:at], "worker", *options), max(n_nodes, 1), tuple(left_out))
