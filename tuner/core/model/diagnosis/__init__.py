"""What binds a layout, from what was measured and what the network adds."""
