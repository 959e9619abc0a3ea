"""How far a job is: asks worker 0 over HTTP while it runs, and reads its last words when it ended.

Nothing a pod says is trusted: it is the user's. A record that the status could not hold is as good as none.
"""

import asyncio
import logging
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import aiohttp
from dtj_api import names
from dtj_api.progress import Progress, SavedCheckpoint, parse_progress

from dtj_operator.pods import Pod, parse_time
from dtj_operator.policy.evidence import termination_record
from dtj_operator.snapshot import JobKey

logger = logging.getLogger(__name__)

ASK_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
LARGEST_ANSWER = 64 * 1024
LARGEST_NUMBER = 2**53
LONGEST_TEXT = 1024
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass
class _Conversation:
    """With one pod."""

    pod_uid: str
    pause: float
    task: "asyncio.Task[None]"
    record: Progress | None = None


class ProgressReader:
    """Asks in the background: no reconcile waits for a pod. A lost answer costs nothing, the next one comes.

    Args:
        changed: told the key of a job whose record is a new one.
        pause: seconds between two questions to one job.
    """

    def __init__(self, changed: Callable[[JobKey], None], pause: float) -> None:
        self._changed = changed
        self._pause = pause
        self._conversations: dict[JobKey, _Conversation] = {}
        self._session: aiohttp.ClientSession | None = None

    def latest(self, key: JobKey, chief: Pod | None, pause: float | None = None) -> Progress | None:
        """The newest record of worker 0, where there is one. From now on it is asked while its trainer runs.

        Args:
            pause: seconds between two questions, where the job says so.
        """
        pause = pause or self._pause
        if chief is None or not chief.trainer_running or not chief.ip or not chief.metrics_port:
            self.forget(key)
            return final_record(chief) if chief is not None else None
        known = self._conversations.get(key)
        if known is None or known.pod_uid != chief.uid:
            self.forget(key)
            task = asyncio.create_task(self._keep_asking(key, _url(chief.ip, chief.metrics_port)))
            known = self._conversations[key] = _Conversation(chief.uid, pause, task)
        known.pause = pause
        return known.record

    def forget(self, key: JobKey) -> None:
        conversation = self._conversations.pop(key, None)
        if conversation is not None:
            conversation.task.cancel()

    async def close(self) -> None:
        for key in list(self._conversations):
            self.forget(key)
        if self._session is not None:
            await self._session.close()

    async def _keep_asking(self, key: JobKey, url: str) -> None:
        while True:
            record = await self._ask(key, url)
            conversation = self._conversations[key]
            if record is not None and record != conversation.record:
                conversation.record = record
                self._changed(key)
            await asyncio.sleep(conversation.pause)

    async def _ask(self, key: JobKey, url: str) -> Progress | None:
        try:
            return await self._get(url)
        except (aiohttp.ClientError, OSError, ValueError, ArithmeticError, RecursionError) as error:
            logger.debug("%s: no progress from %s: %s", key, url, error)
            return None

    async def _get(self, url: str) -> Progress:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=ASK_TIMEOUT, trust_env=False)
        # a pod must not send the operator elsewhere
        async with self._session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}")
            answer = bytearray()
            async for chunk in response.content.iter_chunked(LARGEST_ANSWER):
                answer += chunk
                if len(answer) > LARGEST_ANSWER:
                    raise ValueError("the answer is too long")
        return sound(parse_progress(answer.decode()))


def final_record(pod: Pod) -> Progress | None:
    """What worker 0's termination message says of its progress."""
    last = termination_record(pod.end) if pod.end is not None else None
    if last is None or last.progress is None:
        return None
    try:
        return sound(last.progress)
    except (ValueError, ArithmeticError):
        return None


def sound(record: Progress) -> Progress:
    """`record` without what a status cannot hold: a number that is none (a diverged loss is NaN) is left out.

    Raises:
        ValueError: a step or a text is out of all bounds.
    """
    record = _without_nan(record)
    parts: list[Progress | SavedCheckpoint] = [record] + ([record.checkpoint] if record.checkpoint else [])
    for part in parts:
        for definition in fields(part):
            _check(definition.name, getattr(part, definition.name))
    return record


def _without_nan(record: Progress) -> Progress:
    return replace(
        record,
        loss=_finite_or_none(record.loss),
        eval_loss=_finite_or_none(record.eval_loss),
        samples_per_second=_finite_or_none(record.samples_per_second),
        tokens_per_second=_finite_or_none(record.tokens_per_second),
        mfu=_finite_or_none(record.mfu),
        eta_seconds=_finite_or_none(record.eta_seconds),
    )


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and abs(value) < LARGEST_NUMBER else None


def _check(name: str, value: float | str | SavedCheckpoint | None) -> None:
    if isinstance(value, int) and not 0 <= value < LARGEST_NUMBER:
        raise ValueError(f"{name} is {value}")
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"{name} is too long")
        if name.endswith(("_time", "_at")) and not _is_time(value):
            raise ValueError(f"{name} is no RFC 3339 time")


def _is_time(text: str) -> bool:
    try:
        return bool(RFC_3339.fullmatch(text) and parse_time(text))
    except ValueError:
        return False


def _url(ip: str, port: int) -> str:
    host = f"[{ip}]" if ":" in ip else ip
    return f"http://{host}:{port}{names.PROGRESS_PATH}"
