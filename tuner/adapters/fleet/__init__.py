"""Several boxes, on dask.distributed: what runs on a box, the scheduler between, the coordinator's side."""
