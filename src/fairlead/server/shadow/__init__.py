"""Shadow mode: watch an engine, decide as if it were ours, write down what would have been done, and touch nothing."""
