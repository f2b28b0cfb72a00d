"""The journal and everything that is folded from it."""
