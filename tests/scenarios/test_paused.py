"""What a process has waiting when it stands still beyond its leases is not begun when it goes on."""

import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from running import PATIENCE_S, clean_environment
from started import STARTED
from telesto.client import TelestoClient

NewQueue = Callable[..., int]


def line_of(output: IO[bytes]) -> str:
    """The next line that a process prints, in time."""
    assert select.select([output], [], [], PATIENCE_S)[0], "it prints nothing"
    return output.readline().decode().strip()


@pytest.mark.parametrize("how", ["loop", "run_consumer", "kept", "async loop", "async pool"])
@pytest.mark.parametrize("key", [None, "key"])
def test_what_others_have_handled_meanwhile_is_not_begun(
    url: str, client: TelestoClient, new_queue: NewQueue, how: str, key: str | None
) -> None:
    queue_id = new_queue(lease=2)
    bodies = [b"first", b"1", b"2", b"3", b"4"]
    for body in bodies:
        client.put_message(queue_id, body, partition_key=key)
    program = str(Path(__file__).with_name("paused_process.py"))
    with subprocess.Popen(
        [*STARTED, sys.executable, program, how, url, f"paused {queue_id}", str(queue_id)],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert line_of(process.stdout) == "first"
            process.send_signal(signal.SIGSTOP)
            with client.queue(queue_id).consume() as consumer:
                handled = {}
                deadline = time.monotonic() + PATIENCE_S
                while set(handled) != set(bodies):
                    assert time.monotonic() < deadline
                    if (leased := consumer.get(1.0)) is not None:
                        leased.ack()
                        handled[leased.body] = leased.message.attempt
            # Only the one that had begun has had an attempt.
            assert handled == {body: 2 if body == b"first" else 1 for body in bodies}
            process.stdin.write(b"go on\n")  # its handler ends before anything is read from the connection
            process.send_signal(signal.SIGCONT)
            client.put_message(queue_id, b"end", partition_key=key)
            assert line_of(process.stdout) == "end"
        finally:
            process.kill()
