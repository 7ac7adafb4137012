"""A worker service as a queueing network: demands of an item, and the throughput of layouts.

`demand` says what an item asks for, `machine` what the box offers; `network` solves the network for whole
grids in milliseconds, `simulation` runs it event by event. `docs/method/model.md` says how far to trust them.
"""
