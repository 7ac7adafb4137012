"""Simulated host and in-memory stores, which implement the ports without processes."""
