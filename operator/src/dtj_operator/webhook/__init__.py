"""The validating webhook: says at admission what the operator would say in a condition, and never stands in the way."""

from dtj_operator.webhook.server import serve

__all__ = ["serve"]
