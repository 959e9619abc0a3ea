"""Parallelism, applied to a plain model from outside, in the order of apply.py."""
