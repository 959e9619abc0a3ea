"""What every part of the project agrees on. Standard library only; no I/O."""
