"""What can go wrong between the operator and the API server. No I/O: decisions may speak of these."""


class ApiError(Exception):
    """The API server said no, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFound(ApiError):
    """404: the object, or its kind, is not there."""


class AlreadyExists(ApiError):
    """409: another object has that name."""


class Conflict(ApiError):
    """409: the object has changed, or is not the one that was meant (UID precondition)."""


class Refused(ApiError):
    """400, 403, 422: the API server will not have this object. Its message is for the user."""

    @property
    def for_good(self) -> bool:
        """A forbidden object (quota, policy) may be let in later; a malformed one never."""
        return self.status != 403


class Unavailable(ApiError):
    """429, 5xx, timeouts, lost connections: the same request may pass later, after `retry_after` seconds if given."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after
