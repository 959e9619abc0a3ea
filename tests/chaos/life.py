"""A scripted life of a job, with a kubelet that plays its part, and the operator behind a proxy. The script goes on by
what the real API server holds, never by what the proxy shows."""

import asyncio
import itertools
import os
import ssl
import urllib.error
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from dtj_api import names
from dtj_testbed import ApiServer

from tests.api.conftest import OPERATOR, environment, kubeconfig_context
from tests.api.fields.connection import SteadyApi
from tests.api.harness import Object, Operator, script
from tests.chaos.oracle import Record
from tests.chaos.proxy import Disturbance, Proxy
from tests.chaos.recorder import CHILDREN, History, Recorder

JOB = "gpt"
WORKERS = 2
# Rounds of failure, suspension and resumption in one life.
ROUNDS = int(os.environ.get("DTJ_CHAOS_ROUNDS", "1"))
SPEC = script(WORKERS, restart={"backoffSeconds": 0}, checkpoint={"size": "1Gi"})
SETTLE_SECONDS = "0.5"
# All that is to be told is told at once, so that no two lives differ in their writes; else as in the product.
AT_ONCE, IN_TIME = "0.000001", "15"
# Longer than any life: an operator that needs it has missed something.
NO_RESYNC, RESYNC = "1000", "2"
STEP_SECONDS = 60.0
TOLD_SECONDS = 3.0

_numbers = itertools.count()


class Stage:
    """What all lives of a test share: one API server, its recorder, and connections. An async context manager."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._context = kubeconfig_context(server)
        self._admin = aiohttp.ClientSession(connector=_connector(self._context))
        self._operator = aiohttp.ClientSession(connector=_connector(_identity(server, OPERATOR)))
        self.recorder = Recorder(server.url, self._admin)

    async def __aenter__(self) -> Self:
        await self.recorder.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.recorder.__aexit__(kind, error, trace)
        await self._admin.close()
        await self._operator.close()

    async def live(self, *disturbances: Disturbance) -> "Life":
        """One whole life in a namespace of its own.

        Raises:
            AssertionError: it came to a halt; with what the job looked like, and the end of the operator's log.
        """
        namespace = f"chaos-{next(_numbers)}"
        api = SteadyApi(self.server.url, self._context, namespace)
        await asyncio.to_thread(self.server.request, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        async with Proxy(self.server.url, self._operator, disturbances) as proxy:
            kubeconfig = proxy.write_kubeconfig(self.folder / f"{namespace}.kubeconfig")
            resync = RESYNC if any(d.only_resync_helps for d in disturbances) else NO_RESYNC
            quiet = AT_ONCE if all(d.counts_writes for d in disturbances) else IN_TIME
            pauses = {
                "DTJ_SETTLE_SECONDS": SETTLE_SECONDS,
                "DTJ_RESYNC_SECONDS": resync,
                "DTJ_QUIET_SECONDS": quiet,
            }
            operator = Operator(environment(kubeconfig, namespace) | pauses, self.folder / f"{namespace}.log")
            life = Life(api, self.recorder.histories[namespace], operator, proxy)
            await life.live()
            return life


@dataclass
class Life:
    """
    Attributes:
        last: everything there was when the job had ended and nothing was left to do.
        kills: how often the operator was killed.
        exits: how often it ended by itself; it is started again, as Kubernetes does.
    """

    api: SteadyApi
    history: History
    operator: Operator
    proxy: Proxy
    last: list[Object] = field(default_factory=list)
    kills: int = 0
    exits: int = 0

    async def live(self) -> None:
        for disturbance in self.proxy.disturbances:
            disturbance.kill = self.kill
        self.operator.start()
        try:
            async with asyncio.TaskGroup() as group:
                others = [group.create_task(part()) for part in (self._play_the_kubelet, self._start_again)]
                await self._script()
                for other in others:
                    other.cancel()
        except* (AssertionError, urllib.error.HTTPError) as errors:
            raise AssertionError(f"{errors.exceptions[0]}; {self._state()}") from None
        finally:
            self.operator.kill()

    def kill(self) -> None:
        """As `kill -9`, and a new one at once; nothing after the life."""
        if self.operator.process is not None:
            self.kills += 1
            self.operator.restart()

    async def _start_again(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self.operator.process is not None and self.operator.process.poll() is not None:
                self.exits += 1
                self.operator.restart()

    # the script

    async def _script(self) -> None:
        await self._call(self.api.submit, JOB, SPEC)
        attempt = 0
        await self._until_running(attempt)
        for _ in range(ROUNDS):
            await self._call(self.api.end_pod, names.pod(JOB, attempt, 1), 137, "step 7\n")
            attempt += 1
            await self._until_running(attempt)
            await self._set({"suspend": True})
            await self._until("suspended", lambda: self._is_true("Suspended"))
            await self._set({"suspend": False})
            attempt += 1
            await self._until_running(attempt)
        for worker in range(WORKERS):
            await self._call(self.api.end_pod, names.pod(JOB, attempt, worker), 0)
        await self._until("succeeded", lambda: self._is_true("Succeeded"))
        await self._until("nothing of earlier attempts is left", lambda: self._settled(attempt))
        # the event is told after the status; an operator killed between the two never tells it
        with suppress(AssertionError):
            await self.history.until(self._told_of_success, "", TOLD_SECONDS)
        self.last = [{"kind": kind, **thing} for (kind, _), thing in sorted(self.history.now.items())]
        await self._call(self.api.delete, names.PLURAL, JOB)
        await self._until("nothing is left", self._all_gone)

    async def _until_running(self, attempt: int) -> None:
        def runs() -> bool:
            status = self._status()
            return status.get("attempt") == attempt and self._is_true("Running") and not self._is_true("Restarting")

        await self._until(f"attempt {attempt} runs", runs)

    async def _until(self, what: str, holds: Callable[[], object]) -> None:
        await self.history.until(holds, what, STEP_SECONDS + sum(d.patience for d in self.proxy.disturbances))

    async def _set(self, spec: Object) -> None:
        await self._call(self.api.request, "PATCH", self.api.path(names.PLURAL, JOB), {"spec": spec})

    async def _call(self, call: Callable[..., Any], *arguments: Any) -> None:
        await asyncio.to_thread(call, *arguments)

    # what there is

    def record(self) -> Record:
        left = [f"{kind} {name}" for kind, name in sorted(self.history.now) if kind != "events"]
        return Record(self.history.in_order(), self.last, left)

    def _job(self) -> Object:
        return self.history.now.get((names.PLURAL, JOB)) or {}

    def _status(self) -> Object:
        return self._job().get("status") or {}

    def _is_true(self, kind: str) -> bool:
        return any(c["type"] == kind and c["status"] == "True" for c in self._status().get("conditions") or ())

    def _settled(self, attempt: int) -> bool:
        return all(
            thing["metadata"]["labels"].get(names.LABEL_ATTEMPT) in (None, str(attempt))
            and not thing["metadata"].get("deletionTimestamp")
            for kind in CHILDREN
            for thing in self.history.all(kind)
            if (thing["metadata"].get("labels") or {}).get(names.LABEL_JOB) == JOB
        )

    def _told_of_success(self) -> bool:
        return any(event["reason"] == "AllWorkersSucceeded" for event in self.history.all("events"))

    def _all_gone(self) -> bool:
        return not any(self.history.all(kind) for kind in (names.PLURAL, *CHILDREN))

    def _state(self) -> str:
        there = [f"{kind} {name}" for kind, name in sorted(self.history.now) if kind != "events"]
        status, log = self._status(), self.operator.log
        told = [f"{c['type']}={c['status']} ({c['reason']}: {c['message']})" for c in status.get("conditions") or ()]
        calls = [call.label for call in self.proxy.calls[-8:]]
        return (
            f"phase {status.get('phase')}, attempt {status.get('attempt')}, {told}; there are {there}; "
            f"last calls {calls}; log {log}: ...{log.read_text()[-1500:]}"
        )

    # the kubelet

    async def _play_the_kubelet(self) -> None:
        """Binds and runs every pod, confirms the end of those deleted; binds claims and lets them go."""
        async for one in self.history.follow():
            if one.kind == "pods" and one.type == "ADDED":
                await self._tolerant(self.api.run_pod, one.name)
            elif one.kind == "persistentvolumeclaims" and one.type == "ADDED":
                await self._tolerant(self._bind_claim, one.name)
            if one.kind in ("pods", "persistentvolumeclaims") and one.type != "DELETED" and one.deleting:
                await self._tolerant(self.api.reap)

    def _bind_claim(self, name: str) -> None:
        path = self.api.path("persistentvolumeclaims", name) + "/status"
        self.api.request("PATCH", path, {"status": {"phase": "Bound"}})

    async def _tolerant(self, call: Callable[..., object], *arguments: Any) -> None:
        """What is gone or done meanwhile needs no kubelet."""
        try:
            await asyncio.to_thread(call, *arguments)
        except urllib.error.HTTPError as error:
            if error.code not in (404, 409):
                raise
        except AssertionError:
            pass


def _connector(context: ssl.SSLContext) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(ssl=context, limit=0)


def _identity(server: ApiServer, user: str) -> ssl.SSLContext:
    """Of a user whose kubeconfig was written."""
    server.user_kubeconfig(user)
    keys = server.folder / "pki"
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / f"user-{user}.crt", keys / f"user-{user}.key")
    return context
