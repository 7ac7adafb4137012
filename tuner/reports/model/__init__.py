"""Demands, bottlenecks and predictions, printed."""
