"""Times as records and logs write them."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339, UTC, to the millisecond.

    >>> rfc3339(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_rfc3339(text: str) -> float:
    """The inverse. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()
