"""Putting a file line by line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from telesto.cli import output
from telesto.cli.failures import CommandError
from telesto.cli.inputs import LineSource
from telesto.cli.progress import Progress, progress_of
from telesto.cli.service_errors import describe, explain
from telesto.client import NewMessage, Queue, TelestoClient, TelestoError

GROUP_MESSAGES_MAX = 4096
GROUP_BYTES_MAX = 16 << 20
"""Lines are read and put group by group; the client sends a group as several requests at once."""


@dataclass
class Totals:
    """What has been put so far."""

    messages: int = 0
    size_bytes: int = 0


def put_lines(
    client: TelestoClient, queue: Queue, source: LineSource, envelope: NewMessage, as_json: bool
) -> None:
    """Put every line of `source` with the priority, receiver and context of `envelope`; print the figures.

    Stops at the first line that the queue does not take, with a CommandError that names it.
    """
    totals = Totals()
    started = time.monotonic()
    with progress_of(f"putting into {queue.name}", source.size_bytes) as progress:
        for group in _groups(source.lines()):
            _put_group(client, queue, [replace(envelope, body=line) for line in group], totals, progress)
    seconds = time.monotonic() - started
    _report(queue, totals, seconds, as_json)


def _put_group(
    client: TelestoClient, queue: Queue, messages: list[NewMessage], totals: Totals, progress: Progress
) -> None:
    try:
        results = client.put_many(queue.queue_id, messages)
    except TelestoError as error:
        raise _not_taken(queue, totals.messages, error, later=0) from error
    for index, (message, result) in enumerate(zip(messages, results, strict=True)):
        if result.error is not None:
            later = sum(other.error is None for other in results[index:])
            raise _not_taken(queue, totals.messages, result.error, later) from result.error
        totals.messages += 1
        totals.size_bytes += len(message.body)
        progress.advance(len(message.body) + 1)


def _not_taken(queue: Queue, before: int, error: TelestoError, later: int) -> CommandError:
    """The error for the line after the first `before`; `later` of those after it were put all the same."""
    also = f" and {later} after it" if later else ""
    return CommandError(
        f"line {before + 1} was not put into {queue.name}: {describe(error)}; "
        f"the {before} lines before it{also} were put",
        explain(error).code,
    )


def _groups(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if len(group) == GROUP_MESSAGES_MAX or size >= GROUP_BYTES_MAX:
            yield group
            group, size = [], 0
    if group:
        yield group


def _report(queue: Queue, totals: Totals, seconds: float, as_json: bool) -> None:
    rate = totals.messages / seconds if seconds > 0 else 0.0
    if as_json:
        output.print_json(
            {
                "queue_id": queue.queue_id,
                "messages": totals.messages,
                "bytes": totals.size_bytes,
                "seconds": round(seconds, 3),
            }
        )
        return
    output.print_line(
        f"put {totals.messages} messages ({totals.size_bytes} bytes) into {queue.name} "
        f"in {seconds:.2f} s, {rate:.0f} messages/s"
    )
