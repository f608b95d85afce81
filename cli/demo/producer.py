"""A producer of the demonstration, a process: puts its share of the lines, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from telesto.cli.demo.lines import to_body
from telesto.cli.demo.processes import task_of_this_process, wait_for_start
from telesto.cli.demo.source import lines_of
from telesto.client import TelestoClient

GROUP_MESSAGES = 1024


def produce(url: str, name: str, queue_id: int, text: Path, share: int, shares: int) -> None:
    """Put every `shares`-th line of `text`, from number `share` on, into the queue as client `name`."""
    bodies = _bodies(text, share, shares)
    with TelestoClient(url, name=name) as client:
        client.connect()
        wait_for_start(client.client_id)
        while group := list(islice(bodies, GROUP_MESSAGES)):
            for result in client.queue(queue_id).put_many(group):
                if result.error is not None:
                    raise result.error
        client.delete_client()


def _bodies(text: Path, share: int, shares: int) -> Iterator[bytes]:
    numbered = enumerate(lines_of(text))
    return (to_body(number, line) for number, line in islice(numbered, share, None, shares))


if __name__ == "__main__":
    task = task_of_this_process()
    share, shares = int(task["share"]), int(task["shares"])
    produce(task["url"], task["name"], int(task["queue_id"]), Path(task["text"]), share, shares)
