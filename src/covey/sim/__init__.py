"""The simulated host: hundreds of engines in one process, on a network, clocks and disks with a seed."""
