"""The same workload run live and simulated, side by side."""
