"""Where the server's certificate comes from, and how clients come to trust it: two sources, looked at in rounds."""

import base64
import logging
import ssl
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import ApiError
from dtj_operator.webhook.certificates import Rotation, authorities, issue

logger = logging.getLogger(__name__)

# Authorities of other replicas that stay trusted, the newest ones. Each start of an operator makes one.
MOST_OTHERS = 4


class Source(Protocol):
    """Keeps a server's context supplied with a certificate."""

    async def look(self) -> bool:
        """Do what is due; whether all is well. To be called again and again."""
        ...


class Mounted:
    """Files `tls.crt` and `tls.key` that somebody else, such as cert-manager, renews."""

    def __init__(self, context: ssl.SSLContext, folder: Path) -> None:
        self._context = context
        self._chain, self._key = folder / "tls.crt", folder / "tls.key"
        self._shown = (b"", b"")

    async def look(self) -> bool:
        try:
            found = self._chain.read_bytes(), self._key.read_bytes()
            if found != self._shown:
                show(self._context, *found)
                self._shown = found
        except (OSError, ssl.SSLError) as error:
            logger.warning("the webhook cannot use the certificate of %s: %s", self._chain.parent, error)
            return False
        return True


class SelfMade:
    """A certificate of the operator's own, whose authority it writes into its ValidatingWebhookConfiguration: again
    when it was renewed, and when somebody took it out. Those of other replicas stay beside it."""

    def __init__(
        self,
        context: ssl.SSLContext,
        cluster: Cluster,
        hosts: Sequence[str],
        configuration: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._context = context
        self._cluster = cluster
        self._configuration = configuration
        self._clock = clock
        self._issue = partial(issue, hosts)
        self._rotation = Rotation(self._issue(clock()))
        self._told = False
        # all it ever had: none of them is another replica's
        self._own: set[str] = set()
        self._complaint = ""
        show(context, self._rotation.serving.chain, self._rotation.serving.key)

    async def look(self) -> bool:
        if self._told:
            shown, self._rotation = self._rotation.serving, self._rotation.step(self._clock(), self._issue)
            if self._rotation.serving is not shown:
                show(self._context, self._rotation.serving.chain, self._rotation.serving.key)
        self._told = await self._tell()
        return self._told

    async def _tell(self) -> bool:
        self._own.update(self._rotation.authorities)
        try:
            configuration = await self._cluster.get_webhook_configuration(self._configuration)
            others = [one for one in _trusted(configuration, self._clock()) if one not in self._own][:MOST_OTHERS]
            # in an order that all replicas agree on: else they would undo each other's patches
            patch = trusting(configuration, "".join(sorted((*self._rotation.authorities, *others))))
            if patch is not None:
                await self._cluster.patch_webhook_configuration(self._configuration, patch)
                logger.info("the API server was told to trust the webhook, by %s", self._configuration)
        except ApiError as error:
            self._complain(str(error))
            return False
        self._complaint = ""
        return True

    def _complain(self, words: str) -> None:
        if words != self._complaint:
            self._complaint = words
            logger.warning("jobs are not checked at admission: the API server cannot be told to: %s", words)


def show(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Connections to come see this certificate; those that are open keep the former.

    Raises:
        ssl.SSLError: the two do not belong together; then `context` is as it was.
    """
    with tempfile.TemporaryDirectory() as folder:
        chain_file, key_file = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        chain_file.write_bytes(chain)
        key_file.write_bytes(key)
        # a context that a pair was refused for shows none any more
        for tried in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
            tried.load_cert_chain(chain_file, key_file)


def _trusted(configuration: Object, now: datetime) -> list[str]:
    """Authorities of operators that its webhooks trust, newest first."""
    encoded = {webhook["clientConfig"].get("caBundle") or "" for webhook in configuration.get("webhooks") or []}
    try:
        return authorities("".join(base64.b64decode(one).decode() for one in encoded), now)
    except ValueError:  # somebody else's, and no PEM
        return []


def trusting(configuration: Object, bundle: str) -> Object | None:
    """The merge patch that makes all webhooks of `configuration` trust `bundle` (PEM) alone; None where they do."""
    encoded = base64.b64encode(bundle.encode()).decode()
    webhooks = configuration.get("webhooks") or []
    if all(webhook["clientConfig"].get("caBundle") == encoded for webhook in webhooks):
        return None
    return {
        # a patch replaces the list: it must be the one that was read
        "metadata": {"resourceVersion": configuration["metadata"]["resourceVersion"]},
        "webhooks": [{**it, "clientConfig": {**it["clientConfig"], "caBundle": encoded}} for it in webhooks],
    }
