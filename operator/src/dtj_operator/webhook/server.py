"""The HTTPS server of the webhook. It allows whatever it cannot judge: the operator looks at every job later anyway."""

import asyncio
import logging
import ssl

from aiohttp import web

from dtj_operator.cluster import Cluster
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.settings import Settings, Webhook
from dtj_operator.webhook.check import check
from dtj_operator.webhook.review import answer, read
from dtj_operator.webhook.trust import Mounted, SelfMade, Source

logger = logging.getLogger(__name__)

# a review holds a job twice; the API server takes objects of up to 3 MiB
LARGEST_REVIEW = 16 * 2**20
RETRY_SECONDS = 5.0


async def serve(cluster: Cluster, rehearsals: Rehearsals, settings: Settings, webhook: Webhook) -> None:
    """Answer the API server for ever; look after the certificate meanwhile."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    source = _source(context, cluster, webhook)
    runner = web.AppRunner(application(cluster, rehearsals, settings), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=webhook.port, ssl_context=context).start()
        logger.info("jobs are checked at admission, on port %d", webhook.port)
        while True:
            well = await source.look()
            await asyncio.sleep(settings.resync_seconds if well else min(RETRY_SECONDS, settings.resync_seconds))
    finally:
        await runner.cleanup()


def application(cluster: Cluster, rehearsals: Rehearsals, settings: Settings) -> web.Application:
    """`/validate` for the API server, `/healthz` for the kubelet."""

    async def validate(request: web.Request) -> web.Response:
        try:
            question = read(await request.json())
        except (ValueError, RecursionError) as error:
            return web.Response(status=400, text=f"{error}\n")
        if question.job is None:
            return web.json_response(answer(question, ()))
        try:
            faults = await check(cluster, rehearsals, settings, question.job)
        except Exception:
            logger.exception("%s/%s: cannot be checked, so it is let in", question.job.namespace, question.job.name)
            return web.json_response(answer(question, ()))
        if faults:
            logger.info("%s/%s: denied, %d faults", question.job.namespace, question.job.name, len(faults))
        return web.json_response(answer(question, faults))

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application(client_max_size=LARGEST_REVIEW)
    app.add_routes([web.post("/validate", validate), web.get("/healthz", healthz)])
    return app


def _source(context: ssl.SSLContext, cluster: Cluster, webhook: Webhook) -> Source:
    if webhook.certificates is not None:
        return Mounted(context, webhook.certificates)
    return SelfMade(context, cluster, webhook.hosts, webhook.configuration)
