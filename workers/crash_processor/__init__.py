"""A crash processor as Socorro ran them in 2014: one stackwalker per dump, Python around it."""
