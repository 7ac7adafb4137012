"""One study on several hosts."""
