"""Readings of the host and its processes from the kernel: CPU, memory, threads, cgroups."""
