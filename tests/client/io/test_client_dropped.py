"""A client that is dropped without ``close`` gives back what it has, and warns."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fake_server import FakeServer
from faults.waiting import wait_until
from started import STARTED
from telesto.client import AsyncTelestoClient, TelestoClient

#: No process of a test takes longer.
PATIENCE_S = 60.0


#: How many clients are dropped one after the other.
ROUNDS = 5

#: The names of the threads that clients have.
OF_CLIENTS = ("telesto-background", "telesto-state_0")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in OF_CLIENTS]


@contextmanager
def listening() -> Iterator[Callable[[], list[str]]]:
    """Notes what is said of clients; the garbage collector may run at any time, in any thread."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield lambda: [text for one in said if "TelestoClient" in (text := str(one.message))]


def collect() -> bool:
    """Collects garbage; a client's thread may hold it for a moment more."""
    gc.collect()
    return True


@pytest.mark.parametrize("durable", [False, True])
def test_a_blocking_client_gives_back_everything(
    fake_server: FakeServer, tmp_path: Path, durable: bool
) -> None:
    fake_server.service.add_queue("orders")
    state_dir = tmp_path if durable else None
    gc.collect()
    before, threads_before = descriptors(), threads()

    def use() -> None:
        client = TelestoClient(fake_server.url, state_dir=state_dir, name="alice")
        client.connect()
        client.queue("orders").put(b"x")
        wait_until(lambda: len(threads()) > len(threads_before))

    for _ in range(ROUNDS):
        with listening() as said:
            use()
            wait_until(lambda: collect() and said())
            assert said() == [f"unclosed <TelestoClient 'alice' connected to 127.0.0.1:{fake_server.port}>"]
        wait_until(lambda: len(threads()) <= len(threads_before))
        fake_server.wait_for(lambda: not fake_server.served)
    # Others in this process may have opened one meanwhile; a client that leaks one does so in each round.
    wait_until(lambda: descriptors() < before + ROUNDS)
    if durable:
        with TelestoClient(fake_server.url, state_dir=state_dir) as again:
            again.connect()
            assert again.name == "alice"


def test_a_client_lives_as_long_as_its_handles(fake_server: FakeServer) -> None:
    fake_server.service.add_queue("orders")

    def make() -> TelestoClient:
        client = TelestoClient(fake_server.url, name="alice")
        client.connect()
        return client

    with listening() as said:
        queue = make().queue("orders")
        gc.collect()
        assert queue.put(b"x") > 0
        assert said() == []
        del queue
        wait_until(lambda: collect() and said())
        assert len(said()) == 1


def test_a_client_that_is_closed_or_was_never_used_says_nothing(fake_server: FakeServer) -> None:
    with listening() as said:
        client = TelestoClient(fake_server.url, name="alice")
        client.connect()
        client.close()
        del client
        TelestoClient(fake_server.url)
        AsyncTelestoClient(fake_server.url)
        gc.collect()
        assert said() == []


@pytest.mark.parametrize("durable", [False, True])
def test_an_asyncio_client_gives_back_everything(
    fake_server: FakeServer, tmp_path: Path, durable: bool
) -> None:
    fake_server.service.add_queue("orders")
    state_dir = tmp_path if durable else None

    async def use() -> None:
        client = AsyncTelestoClient(fake_server.url, state_dir=state_dir, name="alice")
        await client.connect()
        await client.queue("orders").put(b"x")

    async def run(said: Callable[[], list[str]]) -> None:
        await asyncio.sleep(0)
        before = descriptors()
        async with asyncio.timeout(PATIENCE_S):
            for number in range(ROUNDS):
                await use()
                while len(said()) <= number:
                    await asyncio.sleep(0.01)
                    gc.collect()
            while descriptors() >= before + ROUNDS:
                await asyncio.sleep(0.01)
                gc.collect()

    gc.collect()
    with listening() as said:
        asyncio.run(run(said))
        text = f"unclosed <AsyncTelestoClient 'alice' connected to 127.0.0.1:{fake_server.port}>"
        assert said() == [text] * ROUNDS
    fake_server.wait_for(lambda: not fake_server.served)
    wait_until(lambda: not threads())
    if durable:
        with TelestoClient(fake_server.url, state_dir=state_dir) as again:
            again.connect()
            assert again.name == "alice"


PROGRAMS = {
    "blocking": "client = TelestoClient(url, name='alice'); queue = client.queue('orders'); queue.put(b'x')",
    "asyncio": "async def main():\n global client\n client = AsyncTelestoClient(url, name='alice')\n "
    "await client.connect()\n await client.queue('orders').put(b'x')\nasyncio.run(main())",
    "asyncio, its loop still there": "loop = asyncio.new_event_loop()\n"
    "client = AsyncTelestoClient(url, name='alice')\nloop.run_until_complete(client.connect())",
    "a service that is away": "options = ClientOptions(call_timeout=0.1)\n"
    "client = TelestoClient(url, options=options, name='alice')\n"
    "client.connect(); server_gone()\nqueue = client.queue('orders')\n"
    "try: queue.put(b'x')\nexcept TelestoError: pass",
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flags", [(), ("-X", "dev")])
def test_the_end_of_the_interpreter(fake_server: FakeServer, program: str, flags: tuple[str, ...]) -> None:
    """It does not wait for a client that was not closed, and shows no traceback."""
    fake_server.service.add_queue("orders")
    text = (
        "import asyncio, sys\nfrom telesto.client import *\nurl = sys.argv[1]\n"
        "def server_gone():\n print('ready', flush=True); sys.stdin.readline()\n" + PROGRAMS[program]
    )
    with subprocess.Popen(
        [*STARTED, sys.executable, *flags, "-c", text, fake_server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if "server_gone" in PROGRAMS[program]:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
            fake_server.deaf = True
            fake_server.cut()
            process.stdin.write("\n")
            process.stdin.flush()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    if not flags:
        assert said == ""
