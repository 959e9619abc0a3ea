"""Checkpoints: what is in one (layout), how it gets to disk (writer) and back (reader), and when (saver)."""
