"""The programs of published experiments.

`tuner lab` runs them to their end, and those import nothing of tuner; `tuner grid` runs the workers
(``*_worker.py``, ``*_worker.go``), which count by its `tuner.probe.counter` or as that describes.
"""
