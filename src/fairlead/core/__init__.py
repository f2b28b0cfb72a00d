"""The decision: state, policy and placer in; a plan and its reasons out."""
