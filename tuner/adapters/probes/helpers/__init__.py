"""Programs that run in the service's own Python, beside a launch: single files, nothing of tuner in them."""
