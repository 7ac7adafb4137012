"""The standard streams of this process."""

from tuner.adapters.processes.signals import fill_closed_streams as fill_closed_streams
