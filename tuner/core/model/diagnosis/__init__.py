"""The bottleneck of a layout, from measurements and the network."""
