"""Puts a file line by line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from telesto.cli.common.service_errors import describe, explain
from telesto.cli.terminal import output
from telesto.cli.terminal.failures import CommandError
from telesto.cli.terminal.inputs import LineSource
from telesto.cli.terminal.progress import Progress, progress_of
from telesto.client import PutResult, TelestoError, TopicPutResult

GROUP_MESSAGES_MAX = 4096
GROUP_BYTES_MAX = 16 << 20
"""Lines are read and put in groups; the client sends a group as several requests at once."""


ResultT = TypeVar("ResultT", PutResult, TopicPutResult)


@dataclass(frozen=True)
class Destination(Generic[ResultT]):
    """A queue or a topic: its name, its identity in JSON, and a function that puts bodies there.

    `show` prints what became of each message; None for figures of all.
    """

    name: str
    fields: Mapping[str, object]
    put: Callable[[list[bytes]], Sequence[ResultT]]
    show: Callable[[ResultT], None] | None = None


@dataclass
class Totals:
    """What has been put so far."""

    messages: int = 0
    size_bytes: int = 0


def put_lines(destination: Destination[ResultT], source: LineSource, as_json: bool) -> None:
    """Put every line of `source` and print the figures, or show each message if the destination does.

    Stops at the first line that is refused, with a CommandError that names it.
    """
    totals = Totals()
    started = time.monotonic()
    with progress_of(f"putting into {destination.name}", source.size_bytes) as progress:
        for group in source.groups(GROUP_MESSAGES_MAX, GROUP_BYTES_MAX):
            _put_group(destination, group, totals, progress)
    seconds = time.monotonic() - started
    if destination.show is None:
        _report(destination, totals, seconds, as_json)


def _put_group(
    destination: Destination[ResultT], bodies: list[bytes], totals: Totals, progress: Progress
) -> None:
    try:
        results = destination.put(bodies)
    except TelestoError as error:
        raise _not_taken(destination, totals.messages, error, later=0) from error
    for index, (body, result) in enumerate(zip(bodies, results, strict=True)):
        if result.error is not None:
            later = sum(other.error is None for other in results[index:])
            raise _not_taken(destination, totals.messages, result.error, later) from result.error
        if destination.show is not None:
            destination.show(result)
        totals.messages += 1
        totals.size_bytes += len(body)
        progress.advance(len(body) + 1)


def _not_taken(
    destination: Destination[ResultT], before: int, error: TelestoError, later: int
) -> CommandError:
    """The error for the line after the first `before`; `later` lines after it were put nevertheless."""
    also = f" and {later} after it" if later else ""
    return CommandError(
        f"line {before + 1} was not put into {destination.name}: {describe(error)}; "
        f"the {before} lines before it{also} were put",
        explain(error).code,
    )


def _report(destination: Destination[ResultT], totals: Totals, seconds: float, as_json: bool) -> None:
    rate = totals.messages / seconds if seconds > 0 else 0.0
    if as_json:
        output.print_json(
            {
                **destination.fields,
                "messages": totals.messages,
                "bytes": totals.size_bytes,
                "seconds": round(seconds, 3),
            }
        )
        return
    output.print_line(
        f"put {totals.messages} messages ({totals.size_bytes} bytes) into {destination.name} "
        f"in {seconds:.2f} s, {rate:.0f} messages/s"
    )
