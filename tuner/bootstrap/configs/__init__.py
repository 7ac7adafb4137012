"""Config files, commands and start files, read with the services that tuner knows."""
