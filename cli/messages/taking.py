"""Takes messages and writes them; each is confirmed only after it is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from telesto.cli.terminal import output
from telesto.cli.terminal.background import BackgroundCall
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.interrupts import Interrupts
from telesto.cli.terminal.output_watch import OutputWatch
from telesto.cli.terminal.piece_writer import PieceWriter
from telesto.client import Message, TelestoClient, TopicMessage

BATCH_MESSAGES_MAX = 256
"""At most this many messages are taken at a time; they stay unconfirmed while they are written."""

MessageT = TypeVar("MessageT", bound=Message | TopicMessage)


@dataclass(frozen=True)
class TakePlan:
    """How long messages are taken: at most `count`, for `wait_s` seconds in total or, with `follow`, for
    ever."""

    wait_s: float
    count: int | None
    follow: bool

    @property
    def count_max(self) -> int | None:
        """The maximal number of messages; None without a limit."""
        return self.count if self.count is not None or self.follow else 1


class Taking(Generic[MessageT]):
    """Takes batch after batch until there are enough messages, no more, or no time left.

    `read` takes messages: at most this many, waiting this many seconds (None: without limit).
    """

    def __init__(
        self,
        client: TelestoClient,
        read: Callable[[int, float | None], list[MessageT]],
        to_line: Callable[[MessageT], bytes],
        plan: TakePlan,
    ) -> None:
        self._client = client
        self._read = read
        self._to_line = to_line
        self._plan = plan
        self._until = time.monotonic() + plan.wait_s
        self._written = 0
        self._output = OutputWatch()
        self._interrupts = Interrupts()
        self._writer = PieceWriter(self._interrupts)

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

    def _take(self, wanted: int) -> list[MessageT]:
        """Wait for messages. If a signal ends the wait, closing the client ends the call."""
        timeout = None if self._plan.follow else max(0.0, self._until - time.monotonic())
        with self._output.waiting():
            return BackgroundCall(partial(self._read, wanted, timeout)).result()

    def _write(self, messages: list[MessageT]) -> None:
        """Write messages and confirm those that were written completely, whatever ends the writing.

        The others are delivered again: those of a queue go back to it when the client is deleted or closed.
        """
        lines = [self._to_line(message) for message in messages]
        with self._interrupts.held():
            try:
                self._writer.write(b"".join(lines))
            finally:
                whole = whole_lines(lines, self._writer.written)
                self._client.confirm(messages[:whole])
                self._written += whole


def exit_code(written: int, source: str) -> ExitCode:
    """NOTHING if nothing was written, with a message on a terminal; `source` is the queue or topic."""
    if written:
        return ExitCode.DONE
    if output.is_terminal():
        output.print_error(f"nothing to get from {source}")
    return ExitCode.NOTHING


def whole_lines(lines: list[bytes], written: int) -> int:
    """How many lines are whole within the first `written` bytes."""
    for index, line in enumerate(lines):
        written -= len(line)
        if written < 0:
            return index
    return len(lines)
