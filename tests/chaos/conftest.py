"""One API server for all lives of a test session, with a garbage collector that knows the CRD from its start."""

from collections.abc import Iterator

import pytest
from dtj_testbed import ApiServer

from tests.api.conftest import prepare
from tests.api.test_outage import command_of


@pytest.fixture(scope="session")
def server() -> Iterator[ApiServer]:
    with ApiServer(garbage_collection=True) as server:
        prepare(server)
        # started before the CRD was there, it notices it after half a minute only
        command = command_of("kube-controller-manager", f"--kubeconfig={server.kubeconfig}")
        server.processes.stop("kube-controller-manager")
        server.processes.start("kube-controller-manager", command)
        yield server
