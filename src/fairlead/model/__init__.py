"""What the rest of fairlead talks about: specs, plans, events, reasons. Standard library only."""
