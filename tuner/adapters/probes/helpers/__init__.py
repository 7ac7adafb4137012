"""Single-file programs that run in the service's Python during a launch and do not import tuner."""
