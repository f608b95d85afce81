"""Clients with a state whose processes are killed at each point, and what the next process makes of it."""

import multiprocessing
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import durable_process
from durable_process import POINTS
from shells import MEMORY_DISK
from telesto.client import TelestoClient

#: Processes are forked off one that has imported everything, and has no threads.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["durable_process", "telesto.client"])


@pytest.fixture
def states() -> Iterator[Path]:
    """A place for states: what a killed process wrote need not be on a disk to be there."""
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as root:
        yield Path(root)


kinds = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


class Case:
    """One client and its queue."""

    def __init__(self, kind: str, url: str, root: Path, name: str) -> None:
        self._kind = kind
        self._url = url
        self._state = root / name
        self._name = name
        with TelestoClient(f"{url}/?name=admin&existing=use") as admin:
            admin.connect()
            self._queue_id = admin.create_queue(name).queue_id

    def run(self, point: str, *actions: str) -> tuple[int | None, list[str]]:
        """Lets a process do something; returns how it ended and what it told."""
        url = f"{self._url}/?name={self._name.replace(' ', '-')}&existing=use"
        arguments = (self._kind, url, str(self._state), self._queue_id, point, list(actions))
        process = processes.Process(target=durable_process.main, args=arguments)
        process.start()
        process.join(60)
        return process.exitcode, Path(f"{self._state}.told").read_text().splitlines()

    def stored(self) -> list[str]:
        with TelestoClient(f"{self._url}/?name=admin&existing=use") as admin:
            admin.connect()
            return [message.text for message in admin.read_messages(self._queue_id)]


@kinds
def test_a_put_under_way_is_put_once(kind: str, real_service_url: str, states: Path) -> None:
    for point in POINTS:
        case = Case(kind, real_service_url, states, point)
        assert case.run(point, "put 1", "arm", "put 2", "die") == (-signal.SIGKILL, []), point
        begun = [] if point == "before the flush" else ["2"]
        # What was written about the second put says too that the first one returned.
        untold = begun or ["1"]
        assert case.run(point, "recover", "put 3", "recover") == (0, [f"{put} None" for put in untold]), point
        assert case.stored() == ["1", *begun, "3"], point


@kinds
def test_a_message_in_hand_comes_again(kind: str, real_service_url: str, states: Path) -> None:
    returned = ("after the flush", "while compacting", "compacted", "before the return")
    for point in POINTS:
        case = Case(kind, real_service_url, states, point)
        actions = ("put a", "put b", "put c", "get", "arm", "get", "die")
        assert case.run(point, *actions) == (-signal.SIGKILL, ["a False"]), point
        expected = [f"b {point in returned}", "c False", "nothing"]
        assert case.run(point, "get", "get", "get") == (0, expected), point


@kinds
def test_a_message_that_was_returned_comes_again(kind: str, real_service_url: str, states: Path) -> None:
    case = Case(kind, real_service_url, states, "returned")
    assert case.run("", "put a", "put b", "get", "die") == (-signal.SIGKILL, ["a False"])
    assert case.run("", "get", "get", "die") == (-signal.SIGKILL, ["a True", "b False"])
    assert case.run("", "get", "get") == (0, ["b True", "nothing"])
    assert case.run("", "get") == (0, ["nothing"])
