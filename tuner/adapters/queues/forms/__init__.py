"""How each library writes its messages into Redis."""
