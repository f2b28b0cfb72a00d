"""Runs jobs as processes of this machine. It imports nothing here: a supervisor must start in a moment."""
