"""The floor: `python -m benchmarks.operator.floor JOBS WORKERS OWNER [services]` POSTs those objects.

Then it waits to be ended, so that its CPU seconds can be read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from benchmarks.operator.client import Client
from benchmarks.operator.manifests import floor


async def main(jobs: int, workers: int, owner_uid: str, *, services: bool) -> None:
    items = list(floor(jobs, workers, owner_uid, services=services))
    async with Client(Path(os.environ["KUBECONFIG"])) as client:
        await client.post_all(items)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], services="services" in sys.argv))
    signal.pause()
