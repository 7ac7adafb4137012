"""Files with which other programs start a service: Procfile, Compose, systemd, supervisord, Dockerfile."""
