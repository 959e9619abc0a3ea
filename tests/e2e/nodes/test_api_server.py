"""The API server dies while a gang trains: nobody restarts anything."""

from dtj_testbed.cluster import Cluster

from tests.e2e.jobs import gpt_job
from tests.e2e.namespace import Namespace


def test_a_gang_outlives_the_api_server(namespace: Namespace, cluster: Cluster) -> None:
    manifest = gpt_job("steady", steps=150)
    manifest["spec"]["monitoring"] = {"progressSeconds": 1}
    namespace.apply(manifest)
    namespace.until_step("steady", 5)
    before = {pod["metadata"]["uid"] for pod in namespace.list("pods")}
    cluster.exec_on_node(cluster.nodes[0], "pkill", "-KILL", "kube-apiserver")
    answers = lambda: namespace.kubectl("get", "--raw", "/readyz", check=False) == "ok"  # noqa: E731
    namespace.until("the API server to answer again", answers, 120)
    done = namespace.until_phase("steady", "Succeeded")
    assert (done["attempt"], done.get("restarts", 0), done["progress"]["step"]) == (0, 0, 150)
    assert {pod["metadata"]["uid"] for pod in namespace.list("pods")} == before
