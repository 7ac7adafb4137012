"""Launches of a layout under supervisord, and the guardian that ends them."""
