"""Work on the changes of accounts: `python account_worker.py FILE SECONDS`.

Start as many as you like. The changes of one customer are worked on in their order, by one worker at a time;
other customers go on beside them.
"""

import contextlib
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator

from telesto import Message, TelestoClient


class Accounts:
    """The changes that are done, in a file of SQLite that the workers share."""

    def __init__(self, file: str, seconds: float) -> None:
        self._file = file
        self._seconds = seconds
        with self._open() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS changes"
                " (place INTEGER PRIMARY KEY, message_id INTEGER UNIQUE,"
                " customer TEXT, change TEXT, worker INTEGER)"
            )

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # A connection for each message, for handlers run in several threads.
        with contextlib.closing(sqlite3.connect(self._file, timeout=60)) as database, database:
            yield database

    def handle(self, message: Message) -> None:
        """Make one change."""
        print(f"{message.partition_key} begins: {message.text}", flush=True)
        time.sleep(self._seconds)  # stands for the work
        with self._open() as database:
            # A worker that is killed behind these lines has not acknowledged: the message comes again, to
            # another worker, and changes nothing more.
            database.execute(
                "INSERT OR IGNORE INTO changes (message_id, customer, change, worker) VALUES (?, ?, ?, ?)",
                (message.message_id, message.partition_key, message.text, os.getpid()),
            )


def main(file: str, seconds: str) -> None:
    """Work until SIGTERM."""
    accounts = Accounts(file, float(seconds))
    with TelestoClient(name="accounts-{pid}") as client:
        queue = client.declare_queue("changes")
        queue.run_consumer(accounts.handle, concurrency=4, stop_signals=(signal.SIGTERM, signal.SIGINT))


if __name__ == "__main__":
    main(*sys.argv[1:])
