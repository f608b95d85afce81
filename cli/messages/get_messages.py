"""Takes messages from a queue."""

from __future__ import annotations

from dataclasses import dataclass

from telesto.cli.common.connection import connected, find_queue
from telesto.cli.messages.message_lines import as_json_line, as_raw_line
from telesto.cli.messages.taking import TakePlan, Taking, exit_code
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.client import ClientOptions, Message, ReadMode


@dataclass(frozen=True)
class GetPlan:
    """The user's request."""

    url: str
    client_name: str | None
    queue: str
    take: TakePlan
    by_time: bool
    sender_id: int | None
    as_json: bool

    @property
    def mode(self) -> ReadMode:
        """Which message comes first."""
        return ReadMode.TIME if self.by_time else ReadMode.PRIORITY


def get_messages(plan: GetPlan) -> ExitCode:
    """Take and write messages as planned; NOTHING if there were none.

    Raises OutputClosedError if the reader of the output goes away.
    """
    with connected(plan.url, plan.client_name, ClientOptions(auto_confirm=False)) as client:
        queue = find_queue(client, plan.queue)

        def read(count: int, timeout: float | None) -> list[Message]:
            return queue.get_many(
                sender_id=plan.sender_id, mode=plan.mode, timeout=timeout, max_messages=count
            )

        to_line = as_json_line if plan.as_json else as_raw_line
        written = Taking(client, read, to_line, plan.take).run()
    return exit_code(written, plan.queue)
