"""For programs of other frameworks: how they ask fairlead for what they use."""
