"""Simulation: the same core under a virtual clock."""
