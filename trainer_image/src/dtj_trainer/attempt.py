"""Which attempt of which job this process belongs to, and how attempts stand to each other. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from dtj_api import environment
from dtj_api.names import rendezvous_token


@dataclass(frozen=True)
class Attempt:
    """One try at running a gang.

    Attributes:
        number: from 0.
        token: the rendezvous token, `<job uid>-<number>`; empty for a run without an operator.
    """

    number: int = 0
    token: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Attempt":
        return cls(int(environ.get(environment.ATTEMPT) or 0), environ.get(environment.RENDEZVOUS_TOKEN, ""))

    @classmethod
    def of_token(cls, token: str) -> "Attempt":
        """
        >>> Attempt.of_token("6f1c-12").number
        12
        """
        number = token.rpartition("-")[2]
        return cls(int(number) if number.isdecimal() else 0, token)

    @property
    def job(self) -> str:
        """UID of the job.

        >>> Attempt(12, "6f1c-12").job
        '6f1c'
        """
        return self.token.removesuffix(rendezvous_token("", self.number))

    def replaces(self, other: "Attempt") -> bool:
        """Whether it is a newer attempt of the same job."""
        return self.job == other.job and self.number > other.number
