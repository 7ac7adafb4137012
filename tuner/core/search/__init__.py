"""Which layout to measure next, and when to stop: races, full grids, grids that grow."""
