"""Reports on demands, bottlenecks and predictions."""
