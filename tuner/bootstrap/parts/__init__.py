"""One module per part of a launch: probe, feeder, ready check, safety limits, metrics."""
