"""Reading of config files, commands and start files for the services that tuner has records of."""
