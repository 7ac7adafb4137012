"""Estimation of an item's demands from windows, with their uncertainty."""
