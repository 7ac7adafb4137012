"""The study file: tables, rows, digests, locks, upgrades."""
