"""How the operator proves who it is: one source for the gateway and for kopf. Reads files, calls nothing."""

import kopf
from kubernetes.aio import config
from kubernetes.aio.client import Configuration


async def load() -> Configuration:
    """The pod's service account (its token is read again as it is renewed), else the kubeconfig.

    Raises:
        kubernetes.aio.config.ConfigException: there is neither.
    """
    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        await config.load_kube_config(client_configuration=configuration)
    return configuration


async def for_kopf(configuration: Configuration) -> kopf.ConnectionInfo:
    """The same in kopf's terms. kopf asks again when the API server no longer takes it."""
    header = await configuration.get_api_key_with_prefix("BearerToken") or ""
    scheme, _, token = header.rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        username=configuration.username or None,
        password=configuration.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
    )
