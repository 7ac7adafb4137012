"""A study under way as metrics: over HTTP for Prometheus, as a file for node_exporter."""
