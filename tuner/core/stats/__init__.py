"""Least squares, intervals, quantiles and tests, without scipy."""
