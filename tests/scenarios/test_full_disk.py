"""The disk of a service becomes full: what is stored can be taken out, and then it goes on by itself."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.waiting import wait_until
from running import PATIENCE_S, SERVE, clean_environment
from started import STARTED, end
from telesto.client import ClientOptions, DeadlineExceededError, TelestoClient, TelestoError
from telesto.db.embedded.server import EmbeddedServer
from telesto.protocol.errors import DiskFullError

MIB = 1 << 20
BODY = os.urandom(100_000)
#: What is left of such a disk for taking messages out: 128 MiB, and 64 MiB of log.
SIZE_MIB = 400
IMPATIENT = ClientOptions(call_timeout=3.0)
#: On a busy machine PostgreSQL takes its time until it has cleared away what was taken out.
PATIENT = ClientOptions(call_timeout=200.0, max_tries=1_000)


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk of the test's own, in memory."""
    place = Path(tempfile.mkdtemp(prefix="telesto-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m,mode=711", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        place.rmdir()
        pytest.skip("a disk cannot be mounted here: that needs root and the right to mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


def fill(disk: Path, name: str, left_mib: int) -> None:
    """Another program leaves so much of the disk, while PostgreSQL takes and frees some of it.

    It takes space once: what becomes free afterwards may be the ballast, which is PostgreSQL's.
    """
    with (disk / name).open("wb") as file:
        while (size := shutil.disk_usage(disk).free - left_mib * MIB) > 0:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            else:
                return


@contextmanager
def service(data_dir: Path) -> Iterator[dict[str, Any]]:
    """A service with a PostgreSQL of its own: what it says, and its log as `errors`."""
    log = data_dir.with_name("errors")
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*STARTED, sys.executable, *SERVE, "--data-dir", str(data_dir)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=clean_environment(),
        )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline()) | {"errors": log}
    finally:
        end(process)
        assert process.stdout is not None
        process.stdout.close()
        print(log.read_text(errors="replace")[-20_000:])  # which pytest shows when the test fails


def metric(told: dict[str, Any], name: str) -> float:
    with urllib.request.urlopen(f"http://{told['admin_address']}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def put_until_refused(url: str, name: str) -> tuple[int, int]:
    """Puts until the disk is full; the queue, and how many were taken."""
    with connected(url, f"owner of {name}") as owner, connected(url, name, IMPATIENT) as client:
        queue_id = owner.create_queue(name).queue_id
        for _ in range(SIZE_MIB * MIB // len(BODY)):
            if is_refused(client, queue_id):
                return queue_id, owner.queue(queue_id).statistics().depth
    raise AssertionError("the disk was not full")


def is_refused(client: TelestoClient, queue_id: int) -> bool:
    """Puts; tells whether that was refused because the disk is full.

    On a busy machine it may also take too long.
    """
    try:
        client.put_message(queue_id, BODY)
    except DeadlineExceededError as error:
        return isinstance(error.__cause__, DiskFullError)
    return False


def connected(url: str, name: str, options: ClientOptions = PATIENT) -> TelestoClient:
    """A client; its first attempts may meet a database that is starting again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        client = TelestoClient(url, options=options, name=name)
        try:
            client.connect()
        except TelestoError:
            client.close(force=True)
            if time.monotonic() > deadline:
                raise
        else:
            return client


def take_all(url: str, queue_id: int) -> int:
    """How many messages are in a queue, read until it is empty."""
    with connected(url, "reader") as client:
        count = 0
        while messages := client.queue(queue_id).get_many(max_messages=10, timeout=0):
            assert all(message.body == BODY for message in messages)
            count += len(messages)
        return count


def put_at_last(url: str, queue_id: int) -> None:
    """Puts in a client that waits until there is space."""
    with connected(url, "late") as client:
        client.put_message(queue_id, BODY)


def test_what_was_stored_is_taken_out_and_puts_are_taken_again(disk: Path) -> None:
    with service(disk / "data") as told:
        fill(disk, "others", 230)
        queue_id, count = put_until_refused(told["url"], "filler")
        assert count > 0
        assert metric(told, "telesto_disk_full") == 1
        assert metric(told, "telesto_disk_free_bytes") < 128 * MIB
        log = told["errors"].read_text()
        assert "disk_full" in log
        # Whatever else is asked for is done: queues, reads, confirmations, purges.
        other_id, _ = put_until_refused(told["url"], "other")
        with connected(told["url"], "purger") as client:
            client.queue(other_id).purge()
        assert take_all(told["url"], queue_id) == count
        put_at_last(told["url"], queue_id)
        assert take_all(told["url"], queue_id) == 1
        log = told["errors"].read_text()
        assert "disk_has_space" in log
        assert "PostgreSQL has ended unexpectedly" not in log


def test_when_others_have_filled_the_disk_the_ballast_makes_space(disk: Path) -> None:
    data_dir = disk / "data"
    ballast = data_dir / "ballast"
    with service(data_dir) as told:
        wait_until(ballast.exists)
        fill(disk, "others", 230)
        queue_id, count = put_until_refused(told["url"], "filler")
        fill(disk, "more", 0)
        wait_until(lambda: not ballast.exists())
        # PostgreSQL may have met the full disk and begun anew; nothing is lost by that.
        assert take_all(told["url"], queue_id) == count
        (disk / "more").unlink()
        (disk / "others").unlink()
        put_at_last(told["url"], queue_id)
        assert "is full; free space, or take messages out" in told["errors"].read_text()
        wait_until(ballast.exists)


def test_a_server_is_started_on_a_full_disk_with_what_the_ballast_held(disk: Path) -> None:
    data_dir = disk / "data"
    server = EmbeddedServer(data_dir)
    with server:
        assert not server.mind_disk()
        assert (data_dir / "ballast").exists()
    fill(disk, "others", 0)
    with server:
        assert not (data_dir / "ballast").exists()
