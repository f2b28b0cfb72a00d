"""The live scheduler as a service: its store, who may do what, settings, metrics."""
