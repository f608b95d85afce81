"""Handlers that acknowledge by telesto.ack in the transaction of their work, while they are killed."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from running import clean_environment
from started import STARTED
from telesto.client import TelestoClient

MESSAGES = 60
KILLS = 3
#: So many messages a process begins before it is killed, at whatever point of the last one's transaction.
BEGUN = 5


@contextmanager
def handler(url: str, database_url: str, queue_id: int, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A consumer in a process of its own, killed at the end of the block."""
    task = {"url": url, "database_url": database_url, "queue_id": queue_id, "name": name}
    program = Path(__file__).with_name("handler_process.py")
    command = [*STARTED, sys.executable, str(program), json.dumps(task)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def test_each_message_has_its_effect_once_however_handlers_die(
    client: TelestoClient, new_queue: Callable[..., int], url: str, shared_database_url: str
) -> None:
    # What a killed process had in an open transaction comes again when PostgreSQL has noticed that, long
    # before its lease is over.
    queue_id = new_queue(max_attempts=1_000, lease=3_600, fail_limit=0)
    with psycopg.connect(shared_database_url, autocommit=True) as database:
        database.execute("CREATE TABLE work (message text)")
        client.queue(queue_id).put_many([b"%d" % number for number in range(MESSAGES)])
        for _ in range(KILLS):
            with handler(url, shared_database_url, queue_id, "killed") as process:
                assert process.stdout is not None
                for _ in range(BEGUN):
                    assert process.stdout.readline()
        with handler(url, shared_database_url, queue_id, "last") as process:
            while _done(database) < MESSAGES:
                assert process.poll() is None
        worked_on = [text for (text,) in database.execute("SELECT message FROM work")]
    assert sorted(worked_on, key=int) == [str(number) for number in range(MESSAGES)]
    assert client.queue(queue_id).statistics().depth == 0
    assert list(client.queue(queue_id).dead_letters()) == []


def _done(database: psycopg.Connection) -> int:
    row = database.execute("SELECT count(DISTINCT message) FROM work").fetchone()
    assert row is not None
    return int(row[0])
