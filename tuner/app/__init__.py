"""The use cases: the work of each command, without its options and its printing."""
