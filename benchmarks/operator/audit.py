"""Requests as the API server's audit log tells them: who asked for what, when, and how it was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

# Users of the bed. Whoever has no kubeconfig of its own is told by its user agent.
CONTROLLER = "controller"
LOAD = "load"
_PROGRAMS = ("kube-scheduler", "kube-controller-manager", "kwok", "kube-apiserver")

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, resources: [{group: coordination.k8s.io, resources: [leases]}]}
- {level: None, nonResourceURLs: ["*"]}
- {level: Metadata}
"""


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        who: `controller`, `load`, or a program of the control plane.
        resource: with its subresource: `pods/status`.
        received, answered: seconds since the epoch.
    """

    who: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    received: float
    answered: float

    @property
    def writes(self) -> bool:
        return self.verb not in ("get", "list", "watch") and not self.dry_run

    @property
    def made_a_pod(self) -> bool:
        return self.verb == "create" and self.resource == "pods" and self.code == 201 and not self.dry_run


@dataclass(frozen=True)
class Tally:
    """How often one kind of request was made."""

    who: str
    verb: str
    resource: str
    dry_run: bool
    count: int


def parse(line: bytes) -> Request | None:
    """The request of one line; None for what is no request of interest, such as the end of a watch."""
    event = orjson.loads(line)
    verb = event.get("verb", "")
    if "objectRef" not in event or event["stage"] != ("ResponseStarted" if verb == "watch" else "ResponseComplete"):
        return None
    reference = event["objectRef"]
    parts = [reference.get("resource", ""), reference.get("subresource", "")]
    return Request(
        who=_who(event),
        verb=verb,
        resource="/".join(part for part in parts if part),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=All" in event.get("requestURI", ""),
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
    )


def tally(requests: Iterable[Request]) -> list[Tally]:
    """Counts by component, verb, resource and rehearsal, the most frequent first. Long watches are left out."""
    counts = Counter((r.who, r.verb, r.resource, r.dry_run) for r in requests if r.verb != "watch")
    return [Tally(*key, count) for key, count in counts.most_common()]


def nth(times: Iterable[float], count: int) -> float | None:
    """The moment at which `count` things had happened; None where fewer did."""
    ordered = sorted(times)
    return ordered[count - 1] if 0 < count <= len(ordered) else None


def _who(event: dict[str, object]) -> str:
    user = event["user"]
    name = user.get("username", "") if isinstance(user, dict) else ""
    if name in (CONTROLLER, LOAD):
        return str(name)
    agent = str(event.get("userAgent", ""))
    return next((program for program in _PROGRAMS if agent.startswith(program)), agent.partition("/")[0] or "?")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Tail:
    """Reads what the log has gained since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def skip(self) -> None:
        """Go to the end."""
        self._offset, self._rest = self._path.stat().st_size, b""

    def read(self) -> list[Request]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            gained = self._rest + file.read()
            self._offset = file.tell()
        *lines, self._rest = gained.split(b"\n")
        return [request for line in lines if line and (request := parse(line)) is not None]
