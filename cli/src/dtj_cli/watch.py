"""`kubectl dtj watch`: one live line until the job is over."""

import sys
from collections.abc import Iterator
from typing import Any

import urllib3
from dtj_api import names
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from dtj_cli import render
from dtj_cli.errors import CommandError

# A stream is asked for anew this often: one that died without a word is noticed by then.
STREAM_SECONDS = 60


def follow(namespace: str, name: str) -> int:
    """Print the job's line whenever it changes. Exit code: 0 Succeeded, 1 Failed or Invalid.

    Raises:
        CommandError: the job does not exist, or was deleted.
    """
    shown = ""
    for job in states(namespace, name):
        line = render.line(job)
        if line != shown:
            show(line, shown)
            shown = line
        if outcome := render.finished(job):
            end_line()
            return 0 if outcome == "Succeeded" else 1
    raise AssertionError("states() ends only with an exception")


def states(namespace: str, name: str) -> Iterator[dict[str, Any]]:
    """The job as it is, then as it becomes; goes on through broken streams."""
    api = client.CustomObjectsApi()
    where = (names.GROUP, names.VERSION, namespace, names.PLURAL)
    while True:
        try:
            job = api.get_namespaced_custom_object(*where, name)
            yield job
            since = job["metadata"]["resourceVersion"]
            stream = watch.Watch().stream(
                api.list_namespaced_custom_object,
                *where,
                field_selector=f"metadata.name={name}",
                resource_version=since,
                timeout_seconds=STREAM_SECONDS,
            )
            for event in stream:
                if event["type"] == "DELETED":
                    raise CommandError(f"{names.KIND} {namespace}/{name} was deleted")
                yield event["object"]
        except ApiException as error:
            if error.status == 404:
                message = f"there is no {names.KIND} {name!r} in namespace {namespace!r}; see: kubectl get dtj -A"
                raise CommandError(message) from None
            if error.status != 410:
                raise
        except urllib3.exceptions.HTTPError as error:
            print(f"\nstream broken ({error}), asking again", file=sys.stderr)


def show(line: str, before: str) -> None:
    """Over the line before where a terminal can, below it elsewhere."""
    if sys.stdout.isatty():
        print("\r" + line.ljust(len(before)), end="", flush=True)
    else:
        print(line, flush=True)


def end_line() -> None:
    if sys.stdout.isatty():
        print()
