"""Records of the known services, one file per service: how tuner starts, feeds, counts and stops it."""
