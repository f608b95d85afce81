"""Consumes a queue and writes its messages; each is acknowledged only after it is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from telesto.cli.common.connection import connected, find_queue
from telesto.cli.messages.message_lines import as_json_line, as_raw_line
from telesto.cli.messages.taking import BATCH_MESSAGES_MAX, exit_code, whole_lines
from telesto.cli.terminal import output
from telesto.cli.terminal.background import BackgroundCall
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.interrupts import Interrupts
from telesto.cli.terminal.output_watch import OutputWatch
from telesto.cli.terminal.piece_writer import PieceWriter
from telesto.client import Consumer, LeasedMessage
from telesto.client.bookkeeping.consumer_credit import CREDIT_MOST


@dataclass(frozen=True)
class PrintPlan:
    """The user's request; it ends after `wait_s` seconds without a message, None for never."""

    url: str
    client_name: str | None
    queue: str
    count: int | None
    wait_s: float | None
    credit: int | None
    as_json: bool


def consume_by_printing(plan: PrintPlan) -> ExitCode:
    """Consume and write messages as planned; NOTHING if there were none.

    Raises OutputClosedError if the reader of the output goes away.
    """
    with connected(plan.url, plan.client_name) as client:
        queue = find_queue(client, plan.queue)
        credit = plan.credit if plan.count is None else min(plan.credit or CREDIT_MOST, plan.count)
        with queue.consume(credit=credit, keep_alive=True) as consumer:
            written = Printing(consumer, plan).run()
    report_lost(consumer)
    return exit_code(written, plan.queue)


def report_lost(consumer: Consumer) -> None:
    """Report messages that will be delivered again although they were processed; call it after closing."""
    if consumer.lost:
        output.print_note(
            f"telesto: {consumer.lost} of the messages will come again: the connection was lost, or their "
            "lease ran out, before they were acknowledged"
        )


class Printing:
    """Writes the messages of a consumer, as many at a time as have come."""

    def __init__(self, consumer: Consumer, plan: PrintPlan) -> None:
        self._consumer = consumer
        self._plan = plan
        self._to_line = as_json_line if plan.as_json else as_raw_line
        self._written = 0
        self._output = OutputWatch()
        self._interrupts = Interrupts()
        self._writer = PieceWriter(self._interrupts)

    def run(self) -> int:
        """Returns how many messages were written and acknowledged."""
        while (wanted := self._wanted()) > 0:
            with self._output.waiting():
                first = BackgroundCall(partial(self._consumer.get, self._plan.wait_s)).result()
            if first is None:
                break
            with self._interrupts.held():
                self._write([first, *self._what_is_there(wanted - 1)])
        return self._written

    def _wanted(self) -> int:
        left = BATCH_MESSAGES_MAX if self._plan.count is None else self._plan.count - self._written
        return min(left, BATCH_MESSAGES_MAX)

    def _what_is_there(self, count_max: int) -> list[LeasedMessage]:
        messages: list[LeasedMessage] = []
        while len(messages) < count_max and (leased := self._consumer.get(0)) is not None:
            messages.append(leased)
        return messages

    def _write(self, messages: list[LeasedMessage]) -> None:
        """Write messages and acknowledge those that were written completely, whatever ends the writing.

        The others go back when the consumer is closed.
        """
        lines = [self._to_line(leased.message) for leased in messages]
        try:
            self._writer.write(b"".join(lines))
        finally:
            whole = whole_lines(lines, self._writer.written)
            for leased in messages[:whole]:
                with leased:
                    self._written += 1
