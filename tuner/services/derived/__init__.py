"""Configs, rollouts and descriptions, made from a service record."""
