"""connection.py: what the API server's answers become. Calls themselves are tested on a real one, in tests/api."""

import json

import pytest
from dtj_operator.connection import _error
from dtj_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Refused, Unavailable


def answer(reason: str, message: str = "words") -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (404, answer("NotFound"), NotFound),
        (409, answer("AlreadyExists"), AlreadyExists),
        (409, answer("Conflict"), Conflict),
        (400, answer("BadRequest"), Refused),
        (403, answer("Forbidden"), Refused),
        (422, answer("Invalid"), Refused),
        (429, answer("TooManyRequests"), Unavailable),
        (410, answer("Expired"), Unavailable),
        (500, answer("InternalError"), Unavailable),
        (503, b"<html>no upstream</html>", Unavailable),
        (502, b"[]", Unavailable),
        (401, answer("Unauthorized"), ApiError),
    ],
)
def test_answers_become_few_typed_errors(status: int, text: bytes, expected: type[ApiError]) -> None:
    error = _error(status, None, text)
    assert type(error) is expected
    assert error.status == status


def test_the_pause_the_server_asks_for_is_kept() -> None:
    error = _error(429, "7", answer("TooManyRequests"))
    assert isinstance(error, Unavailable)
    assert error.retry_after == 7.0
    later = _error(503, "Wed, 21 Oct 2026 07:28:00 GMT", b"")
    assert isinstance(later, Unavailable)
    assert later.retry_after is None


def test_only_a_forbidden_object_may_be_let_in_later() -> None:
    assert not Refused(403, "Forbidden", "exceeded quota").for_good
    assert Refused(422, "Invalid", "spec.x").for_good
