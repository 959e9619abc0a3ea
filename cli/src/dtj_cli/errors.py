"""The one error of the command line: a sentence for its user."""


class CommandError(Exception):
    """Printed as it is; the command ends with exit code 2."""
