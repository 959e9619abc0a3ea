"""Times as the status has them, and spans of time for people. Pure."""

from datetime import UTC, datetime


def timestamp(time: datetime) -> str:
    """RFC 3339, UTC, whole seconds: Kubernetes' Time."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def precise(time: datetime) -> str:
    """RFC 3339, UTC, microseconds: Kubernetes' MicroTime, for what pauses are counted from."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def duration(seconds: float) -> str:
    """For people.

    >>> duration(80), duration(5), duration(7260), duration(200000)
    ('1m20s', '5s', '2h1m', '2d7h')
    """
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour}h"
    if hours:
        return f"{hours}h{minute}m"
    return f"{minutes}m{second}s" if minutes else f"{second}s"
