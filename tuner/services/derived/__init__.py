"""Configs, rollouts and descriptions that are generated from a service record."""
