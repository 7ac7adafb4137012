"""Metrics of a running study: over HTTP for Prometheus, or as a file for node_exporter."""
