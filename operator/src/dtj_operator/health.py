"""Whether the operator does its work, not only whether it lives: what /healthz and /metrics are made from."""

from collections.abc import Callable, Sequence

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from dtj_operator.informer import JobWatch, Reflector
from dtj_operator.metrics import REGISTRY
from dtj_operator.workqueue import Age

# A watch brings a bookmark about every minute, and is begun anew where it does not.
SILENT_SECONDS = 300.0
# Each call has a deadline of 30 s, and a look has few that wait for each other.
STUCK_SECONDS = 600.0


def problems(reflectors: Sequence[Reflector], jobs: JobWatch, age: Age) -> list[str]:
    """Sentences on what does not work any more and would if the operator were started anew; none if all is well."""
    found = [
        f"the watch of {reflector.kind}s has been silent for {reflector.silent_for():.0f} s"
        for reflector in reflectors
        if reflector.silent_for() > SILENT_SECONDS
    ]
    if jobs.is_stale:
        found.append("the watch of jobs does not bring what a list of them shows")
    if age.waiting > STUCK_SECONDS:
        found.append(f"a job has waited for {age.waiting:.0f} s to be looked at")
    if age.working > STUCK_SECONDS:
        found.append(f"a job has been looked at for {age.working:.0f} s")
    return found


async def listen(port: int, ask: Callable[[], list[str]]) -> web.AppRunner:
    """Serve /healthz and /metrics; the caller cleans up."""

    async def healthz(_: web.Request) -> web.Response:
        found = ask()
        return web.Response(status=503 if found else 200, text="\n".join(found or ["ok"]) + "\n")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
