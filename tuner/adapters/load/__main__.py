"""``python -m tuner.adapters.load ORDER TOTALS``: see ``generator``."""

import sys

from tuner.adapters.load.generator import main

main(*sys.argv[1:])
