"""Ready checks of a launch: one kind per file, with its settings (`tuner/config/kinds.py`)."""
