"""A worker service as a queueing network: what an item asks of the box, and what a layout makes of it.

`demand` says what an item asks for, `machine` what the box offers; `network` solves the network for whole
grids in milliseconds, `simulation` runs it event by event. `docs/method/model.md` says how far to trust them.
"""
