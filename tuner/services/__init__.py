"""One file per kind of worker service: how it is started and fed."""
