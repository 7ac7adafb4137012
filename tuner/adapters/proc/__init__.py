"""The host and its processes as the kernel shows them: CPU, memory, threads, cgroups."""
