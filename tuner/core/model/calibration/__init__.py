"""From the clocks of windows to what an item asks for, and how sure that is."""
