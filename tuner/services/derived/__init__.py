"""What follows from a service record: a config, a rollout, a description."""
