"""How a pod is reached and over what its ranks talk: ports, interfaces, RDMA, the node's own network. Pure."""

from dtj_api import environment, names
from dtj_api.spec import Network

from dtj_operator.children.blueprint import Object


def interface_variables(network: Network) -> dict[str, str]:
    """`network.interface` as each communication library reads it."""
    if network.interface is None:
        return {}
    # NCCL takes a bare name for a prefix: eth1 would be eth10 too
    return {environment.NCCL_INTERFACE: f"={network.interface}", environment.GLOO_INTERFACE: network.interface}


def open_port(container: Object, name: str, port: int) -> None:
    """Declare a port, unless the user has declared it or given its name away."""
    ports = container.get("ports", [])
    if not any(given.get("name") == name or given.get("containerPort") == port for given in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": port}]


def use_host_network(spec: Object, container: Object) -> None:
    """The node's network. A declared port is one of the node's then: no second worker is placed there."""
    spec["hostNetwork"] = True
    # with plain ClusterFirst such a pod would ask the node's DNS, which knows no worker
    if spec.get("dnsPolicy", "ClusterFirst") == "ClusterFirst":
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    open_port(container, names.MASTER_PORT_NAME, names.MASTER_PORT)


def use_rdma(container: Object, resource: str) -> None:
    """One RDMA device, unless the template asks for its own number, and the right to pin memory for it."""
    resources = container["resources"] = dict(container.get("resources", {}))
    if not any(resource in resources.get(kind, {}) for kind in ("limits", "requests")):
        for kind in ("limits", "requests"):
            resources[kind] = {**resources.get(kind, {}), resource: "1"}
    security = container["securityContext"] = dict(container.get("securityContext", {}))
    capabilities = security["capabilities"] = dict(security.get("capabilities", {}))
    added = capabilities.get("add", [])
    if "IPC_LOCK" not in added:
        capabilities["add"] = [*added, "IPC_LOCK"]
