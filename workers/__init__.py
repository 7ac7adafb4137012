"""Worker services that come with tuner; installed as ``tuner_workers``."""
