"""Prediction of layouts and hosts that were not measured, with its uncertainty."""
