"""One file per scheduler. A policy decides who runs and how much; it knows nothing of machines' names."""
