"""A reader of the demonstration, a process: takes lines until it is told that there are no more."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from telesto.cli.demo.check import LineRecord
from telesto.cli.demo.lines import from_body
from telesto.cli.demo.processes import task_of_this_process, wait_for_start
from telesto.cli.demo.source import digest
from telesto.client import Message, TelestoClient

BATCH_MESSAGES = 256


def read(url: str, name: str, queue_id: int, records: Path) -> None:
    """Take lines as client `name` and write a record of each, until a message for this client alone comes.

    That message has the lowest priority, so it is read after all the lines.
    """
    with TelestoClient(url, name=name) as client, records.open("wb") as file:
        client.connect()
        wait_for_start(client.client_id)
        while True:
            messages = client.queue(queue_id).get_many(max_messages=BATCH_MESSAGES)
            lines = [message for message in messages if message.receiver_id is None]
            _write_records(file, lines)
            if len(lines) < len(messages):
                break
        client.delete_client()


def _write_records(file: BinaryIO, messages: list[Message]) -> None:
    for message in messages:
        number, line = from_body(message.body)
        file.write(LineRecord(number, message.sender_id, message.message_id, digest(line)).pack())


if __name__ == "__main__":
    task = task_of_this_process()
    read(task["url"], task["name"], int(task["queue_id"]), Path(task["records"]))
