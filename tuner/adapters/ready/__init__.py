"""The checks whether a launch is ready: one kind per file, with its settings (`tuner/config/kinds.py`)."""
