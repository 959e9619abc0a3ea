"""The pod's first process: starts its ranks, watches them, serves metrics and progress, and names what failed first.

Imports no torch: it must start at once and cost no memory.
"""
