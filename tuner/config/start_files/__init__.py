"""What other programs start a service by: Procfile, compose file, unit, config of supervisord, Dockerfile."""
