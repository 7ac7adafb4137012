"""Ids by which the messages of a study are known, wherever they turn up."""

from __future__ import annotations

import hashlib
import os
from itertools import count


def study_tag(study_id: str) -> str:
    """What every id of this study begins with: 48 bits, in the form of a UUID of version 4."""
    digest = hashlib.sha256(study_id.encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4"


class Ids:
    """New ids, all different, also from those of another run: 36 characters, each a UUID to whoever looks."""

    def __init__(self, tag: str) -> None:
        run = os.urandom(3).hex()
        self._head = f"{tag}{run[:3]}-8{run[3:]}-".encode()
        self._numbers = count()

    def next(self) -> bytes:
        """The next one."""
        return b"%b%012x" % (self._head, next(self._numbers))
