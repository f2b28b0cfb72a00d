"""One file per placer. A placer decides where; it knows nothing of who deserves it."""
