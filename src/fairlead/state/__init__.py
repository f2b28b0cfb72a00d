"""The one mutable state, as columns; the read-only view of it; trial and undo; what must hold."""
