"""The trainer: what its strategies compute, and how fast."""
