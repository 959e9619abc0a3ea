"""Things that run side by side and end together."""

import asyncio
from collections.abc import Collection
from typing import Any


async def until_one_ends(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Wait until one of them ends, then end the others.

    Raises:
        Exception: what ended it.
    """
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
