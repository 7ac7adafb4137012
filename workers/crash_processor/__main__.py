"""``python -m tuner_workers.crash_processor``: the same as ``crash-processor``."""

from .cli import main

main()
