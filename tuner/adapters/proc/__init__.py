"""What the kernel shows of the host and of processes: CPU, memory, threads, cgroups."""
