"""Taking messages and writing them, confirming each only once it is written."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from telesto.cli.background import BackgroundCall
from telesto.cli.connection import connected, find_queue
from telesto.cli.exit_codes import ExitCode
from telesto.cli.interrupts import Interrupts
from telesto.cli.message_lines import as_json_line, as_raw_line
from telesto.cli.output_watch import OutputWatch
from telesto.cli.piece_writer import PieceWriter
from telesto.client import ClientOptions, Message, Queue, ReadMode, TelestoClient

BATCH_MESSAGES_MAX = 256
"""At most so many messages are taken at a time; they are held unconfirmed while they are written."""


@dataclass(frozen=True)
class GetPlan:
    """What the user asked for."""

    url: str
    client_name: str | None
    queue: str
    wait_s: float
    count: int | None
    follow: bool
    by_time: bool
    sender_id: int | None
    as_json: bool

    @property
    def mode(self) -> ReadMode:
        """Which message comes first."""
        return ReadMode.TIME if self.by_time else ReadMode.PRIORITY

    @property
    def count_max(self) -> int | None:
        """At most so many messages; None without a bound."""
        return self.count if self.count is not None or self.follow else 1


def get_messages(plan: GetPlan) -> ExitCode:
    """Take and write messages as planned; NOTHING when there were none.

    Raises OutputClosedError when the reader of the output goes away.
    """
    with connected(plan.url, plan.client_name, ClientOptions(auto_confirm=False)) as client:
        written = _Taking(client, find_queue(client, plan.queue), plan).run()
    return ExitCode.DONE if written else ExitCode.NOTHING


class _Taking:
    """Takes batch after batch until there is enough, nothing more, or no time left."""

    def __init__(self, client: TelestoClient, queue: Queue, plan: GetPlan) -> None:
        self._client = client
        self._queue_id = queue.queue_id
        self._plan = plan
        self._until = time.monotonic() + plan.wait_s
        self._written = 0
        self._output = OutputWatch()
        self._interrupts = Interrupts()
        self._writer = PieceWriter(self._interrupts)
        self._to_line = as_json_line if plan.as_json else as_raw_line

    def run(self) -> int:
        """Returns how many messages were written and confirmed."""
        while (wanted := self._wanted()) > 0:
            messages = self._take(wanted)
            if not messages:
                break
            self._write(messages)
        return self._written

    def _wanted(self) -> int:
        count_max = self._plan.count_max
        left = BATCH_MESSAGES_MAX if count_max is None else count_max - self._written
        return min(left, BATCH_MESSAGES_MAX)

    def _take(self, wanted: int) -> list[Message]:
        """Wait for messages. When a signal ends that, the end of the client ends the call."""
        timeout = None if self._plan.follow else max(0.0, self._until - time.monotonic())
        read = partial(
            self._client.retrieve_messages,
            self._queue_id,
            sender_id=self._plan.sender_id,
            mode=self._plan.mode,
            timeout=timeout,
            max_messages=wanted,
        )
        with self._output.waiting():
            return BackgroundCall(read).result()

    def _write(self, messages: list[Message]) -> None:
        """Write messages and confirm those that were written whole, whatever ends the writing.

        The others go back to the queue when the client is deleted or closed.
        """
        lines = [self._to_line(message) for message in messages]
        with self._interrupts.held():
            try:
                self._writer.write(b"".join(lines))
            finally:
                whole = _whole_lines(lines, self._writer.written)
                self._client.confirm(messages[:whole])
                self._written += whole


def _whole_lines(lines: list[bytes], written: int) -> int:
    """How many lines are whole within the first `written` bytes."""
    for index, line in enumerate(lines):
        written -= len(line)
        if written < 0:
            return index
    return len(lines)
