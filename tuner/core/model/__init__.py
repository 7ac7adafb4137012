"""A worker service as a queueing network: demands of an item, and the throughput of layouts.

`demand` has the demands of an item, `machine` the host; `network` solves the network for whole grids in
milliseconds, `simulation` runs it event by event. `docs/method/model.md` has the measured errors.
"""
