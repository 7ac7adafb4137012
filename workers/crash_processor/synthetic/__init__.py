"""Synthetic crash reports with known answers: minidumps, symbol files and annotations, from a seed.

The tests' truth (what a stackwalker must print is known because each stack was built to be walked that way)
and the input of the built-in crash processor where no real dumps are at hand.
"""

from .crash import SyntheticCrash, make_crash
from .spool import write_spool_dumps
from .world import World, make_world

__all__ = ["SyntheticCrash", "World", "make_crash", "make_world", "write_spool_dumps"]
