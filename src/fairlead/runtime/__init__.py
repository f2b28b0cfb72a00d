"""The driver: runs the core against a clock and an executor, and applies planners' plans."""
