"""The examination of a host and a service, for `tuner doctor`."""
