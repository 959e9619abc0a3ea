"""What keeps a rank honest with the world outside: signals."""
