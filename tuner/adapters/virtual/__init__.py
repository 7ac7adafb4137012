"""The simulated host, and stores in memory: the same ports without processes."""
