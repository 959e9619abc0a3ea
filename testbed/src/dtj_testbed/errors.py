"""The one error a caller of the testbed has to know."""


class TestbedError(RuntimeError):
    """Something a person can mend; the message says what, where and how."""

    __test__ = False  # its name would make pytest collect it
