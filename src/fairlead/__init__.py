"""fairlead: deep-learning schedulers, written once, simulated and run on one decision core."""

__version__ = "0.1.0"
