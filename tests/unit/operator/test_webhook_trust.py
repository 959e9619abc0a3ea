"""webhook/certificates.py and trust.py: real TLS over loopback, a fake clock, a configuration in memory."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import Conflict, NotFound
from dtj_operator.webhook.certificates import LIFETIME, issue
from dtj_operator.webhook.trust import Mounted, SelfMade

HOSTS = ("dtj-webhook.dtj-system.svc", "127.0.0.1")
RENEWAL = LIFETIME * 2 / 3


class Configurations(Cluster):
    """One ValidatingWebhookConfiguration with two webhooks."""

    def __init__(self) -> None:
        self.present = True
        self.version = 1
        self.webhooks: list[Object] = [
            {"name": name, "rules": [name], "clientConfig": {"service": {"name": "dtj"}}} for name in ("a", "b")
        ]

    async def get_webhook_configuration(self, name: str) -> Object:
        if not self.present:
            raise NotFound(404, "NotFound", name)
        return {"metadata": {"name": name, "resourceVersion": str(self.version)}, "webhooks": self.webhooks}

    async def patch_webhook_configuration(self, name: str, patch: Object) -> None:
        if patch["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", name)
        self.version += 1
        self.webhooks = patch["webhooks"]

    @property
    def bundle(self) -> str:
        first, second = (base64.b64decode(it["clientConfig"].get("caBundle", "")).decode() for it in self.webhooks)
        assert first == second
        return first


class Clock:
    """Begins where a certificate made now is due for renewal by the clock of the TLS library."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC) - RENEWAL

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    running = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with running:
        yield running.sockets[0].getsockname()[1]


async def shown_to(bundle: str, port: int, host: str = HOSTS[0]) -> bytes:
    """The certificate that a client which trusts `bundle` is shown.

    Raises:
        ssl.SSLCertVerificationError: it does not trust it.
    """
    context = ssl.create_default_context(cadata=bundle)
    # what newer Pythons ask for by default
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(certificate, bytes)
    return certificate


def server_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@pytest.mark.parametrize("host", HOSTS)
async def test_certificate_is_trusted_for_its_names_by_its_authority_alone(host: str) -> None:
    context, cluster = server_context(), Configurations()
    assert await SelfMade(context, cluster, HOSTS, "dtj").look()
    async with listening(context) as port:
        await shown_to(cluster.bundle, port, host)
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown_to(cluster.bundle, port, "other.dtj-system.svc")
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown_to(issue(HOSTS, datetime.now(UTC)).authority, port, host)


async def test_authority_is_written_beside_what_else_the_configuration_says_and_only_when_it_differs() -> None:
    cluster = Configurations()
    source = SelfMade(server_context(), cluster, HOSTS, "dtj")
    assert await source.look()
    assert await source.look()
    assert cluster.version == 2
    assert [(it["name"], it["rules"], it["clientConfig"]["service"]) for it in cluster.webhooks] == [
        ("a", ["a"], {"name": "dtj"}),
        ("b", ["b"], {"name": "dtj"}),
    ]


async def test_replicas_are_trusted_side_by_side_and_leave_each_other_alone() -> None:
    cluster, clock = Configurations(), Clock()
    contexts = [server_context(), server_context()]
    sources = [SelfMade(context, cluster, HOSTS, "dtj", clock) for context in contexts]
    for _ in range(3):
        for source in sources:
            assert await source.look()
    assert cluster.version == 3, "each has written once"
    for context in contexts:
        async with listening(context) as port:
            await shown_to(cluster.bundle, port)


async def test_of_replicas_that_are_gone_the_newest_few_are_trusted() -> None:
    cluster, clock = Configurations(), Clock()
    for _ in range(9):
        clock.now += timedelta(minutes=1)
        await SelfMade(server_context(), cluster, HOSTS, "dtj", clock).look()
    assert cluster.bundle.count("BEGIN CERTIFICATE") == 5
    clock.now += LIFETIME
    await SelfMade(server_context(), cluster, HOSTS, "dtj", clock).look()
    assert cluster.bundle.count("BEGIN CERTIFICATE") == 1, "the others have expired"


async def test_bundle_that_was_taken_out_comes_back() -> None:
    cluster = Configurations()
    source = SelfMade(server_context(), cluster, HOSTS, "dtj")
    await source.look()
    bundle = cluster.bundle
    cluster.webhooks[1] = {**cluster.webhooks[1], "clientConfig": {"service": {"name": "dtj"}}}
    await source.look()
    assert cluster.bundle == bundle


async def test_missing_configuration_is_told_once_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Configurations()
    cluster.present = False
    source = SelfMade(server_context(), cluster, HOSTS, "dtj")
    assert not await source.look()
    assert not await source.look()
    assert caplog.text.count("jobs are not checked at admission") == 1
    cluster.present = True
    assert await source.look()


async def test_certificate_is_renewed_at_two_thirds_of_its_life_and_always_trusted() -> None:
    context, cluster, clock = server_context(), Configurations(), Clock()
    source = SelfMade(context, cluster, HOSTS, "dtj", clock)
    await source.look()
    first_bundle = cluster.bundle
    async with listening(context) as port:
        first = await shown_to(first_bundle, port)
        clock.now += RENEWAL - timedelta(seconds=1)
        await source.look()
        assert cluster.bundle == first_bundle

        clock.now += timedelta(seconds=1)
        await source.look()
        assert cluster.bundle.count("BEGIN CERTIFICATE") == 2
        assert await shown_to(cluster.bundle, port) == first, "told before it is shown"

        both = cluster.bundle
        await source.look()
        assert cluster.bundle == both, "the former is trusted while an API server may still see it"
        second = await shown_to(both, port)
        assert second != first

        await source.look()
        assert cluster.bundle.count("BEGIN CERTIFICATE") == 1
        assert await shown_to(cluster.bundle, port) == second
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown_to(first_bundle, port)


async def test_new_certificate_is_not_shown_before_it_is_trusted() -> None:
    context, cluster, clock = server_context(), Configurations(), Clock()
    source = SelfMade(context, cluster, HOSTS, "dtj", clock)
    await source.look()
    bundle = cluster.bundle
    clock.now += RENEWAL
    cluster.present = False
    async with listening(context) as port:
        for _ in range(3):
            assert not await source.look()
            await shown_to(bundle, port)


def write(folder: Path, certificate: Any) -> None:
    (folder / "tls.crt").write_bytes(certificate.chain)
    (folder / "tls.key").write_bytes(certificate.key)


async def test_mounted_certificate_is_waited_for_and_followed(tmp_path: Path) -> None:
    context = server_context()
    source = Mounted(context, tmp_path)
    assert not await source.look()
    first, second = (issue(HOSTS, datetime.now(UTC)) for _ in range(2))
    write(tmp_path, first)
    assert await source.look()
    async with listening(context) as port:
        await shown_to(first.authority, port)
        (tmp_path / "tls.crt").write_bytes(second.chain)
        assert not await source.look(), "a certificate without its key"
        await shown_to(first.authority, port)
        write(tmp_path, second)
        assert await source.look()
        await shown_to(second.authority, port)
