"""The examination of this host and a service, for `tuner doctor`."""
