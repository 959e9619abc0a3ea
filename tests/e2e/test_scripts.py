"""Scripts of the user's own: the environment they get, and that the workers find each other across nodes."""

from dtj_api import names

from tests.e2e.jobs import apart, example, script_job
from tests.e2e.namespace import Namespace

# Worker 0 listens where MASTER_ADDR points; worker 1 looks the name up and calls, then sees its own name resolve.
RENDEZVOUS = """
import os, socket, time
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    server = socket.create_server(("", port))
    peer, _ = server.accept()
    print("heard", peer.recv(100).decode())
else:
    end = time.monotonic() + 60
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=5)
            break
        except OSError as error:
            print(error, flush=True)
            if time.monotonic() > end: raise
            time.sleep(0.2)
    peer.sendall(f"{os.environ['RANK']} of {os.environ['WORLD_SIZE']} from {socket.gethostname()}".encode())
print(socket.gethostbyname(socket.gethostname()))
"""


def test_workers_on_two_nodes_find_each_other_by_name(namespace: Namespace, operator_image: str) -> None:
    namespace.apply(script_job("meet", operator_image, RENDEZVOUS, pod=apart("meet")))
    namespace.until_phase("meet", "Succeeded")
    assert len({namespace.pod("meet", worker)["spec"]["nodeName"] for worker in range(2)}) == 2
    heard = namespace.kubectl("logs", names.pod("meet", 0, 0))
    assert f"heard 1 of 2 from {names.pod('meet', 0, 1)}" in heard


def test_the_example_of_an_own_script_sums_over_the_ranks(namespace: Namespace, trainer_image: str) -> None:
    job = example("own-script.yaml")
    job["spec"]["template"]["spec"]["containers"][0]["image"] = trainer_image
    namespace.apply(job)
    namespace.until_phase("own-script", "Succeeded")
    for worker in range(2):
        words = namespace.kubectl("logs", names.pod("own-script", 0, worker))
        assert f"rank {worker} of 2: the sum of all ranks + 1 is 3" in words
