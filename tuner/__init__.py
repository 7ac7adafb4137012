"""tuner finds the right split of a Python worker service into processes and threads."""

__version__ = "0.1.0"
