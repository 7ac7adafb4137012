"""Studies on several hosts, on dask.distributed: the host's side, the scheduler, the coordinator's side."""
