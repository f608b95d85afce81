"""The comparison: what cannot take part is named and skipped, what can is measured, balanced and compared."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telesto.benchmarks.comparison.catalog import CATALOG, Entry, Servers
from telesto.benchmarks.comparison.compare import (
    WORKS,
    Comparison,
    Size,
    compare_peers,
    delays_of,
    drained,
    plans_of,
    summarise,
)
from telesto.benchmarks.comparison.table import render, targets
from telesto.benchmarks.load.recorder import RECORD, Operation, Records
from telesto.benchmarks.load.settings import Window
from telesto.benchmarks.peers.interface import Peer, PeerUnavailableError
from telesto.benchmarks.results.audit import Balance

TINY = Size(
    seconds=0.4,
    warm_up_s=0.1,
    repetitions=1,
    connections=2,
    in_flight=4,
    consumers=2,
    processes=1,
    rate=100.0,
)
CLEAN = Balance(0, 0, 0, 0, 0, 0, None, 0)
NOWHERE = Path("nowhere")


class BrokenServer:
    """Never starts."""

    def __init__(self) -> None:
        self.starts = 0

    async def start(self, directory: Path) -> None:
        self.starts += 1
        raise PeerUnavailableError("it is broken")

    async def stop(self) -> None:
        """Nothing runs."""

    def roots(self) -> Iterable[int]:
        return []


class IdleServer(BrokenServer):
    """Starts, and that is all."""

    async def start(self, directory: Path) -> None:
        self.starts += 1


class FakePeer(Peer):
    """Has a server of whichever kind, and no queues."""

    module = "nothing"

    def address(self) -> dict[str, Any]:
        return {"at": "home"}

    async def make_queue(self, queue: str) -> None:
        raise OSError("no queues today")

    async def left(self, queue: str) -> list[bytes]:
        raise AssertionError

    async def drop_queue(self, queue: str) -> None:
        raise AssertionError

    async def describe(self) -> dict[str, str]:
        return {"fake": "yes"}


def never(_: Servers) -> Peer:
    raise AssertionError


@pytest.fixture
def place(data_dir: Path) -> Path:
    data_dir.mkdir(mode=0o711)
    return data_dir


async def test_what_cannot_take_part_is_skipped_and_the_rest_is_compared(place: Path) -> None:
    broken, idle = BrokenServer(), IdleServer()
    catalog = {
        "telesto": CATALOG["telesto"],
        "absent": Entry(never, ("no_such_module",), ("no-such-program",), ("deb",)),
        "broken": Entry(lambda _: FakePeer("broken", broken)),
        "broken-too": Entry(lambda _: FakePeer("broken-too", broken)),
        "no-queues": Entry(lambda _: FakePeer("no-queues", idle)),
        "not-asked": Entry(never),
    }
    said: list[str] = []
    asked = ["absent", "broken", "broken-too", "no-queues"]
    comparison = Comparison(TINY)
    await compare_peers(comparison, asked, WORKS, place, said.append, catalog)

    skipped = comparison.skipped
    assert "no_such_module" in skipped["absent"]
    assert "apt-get install deb" in skipped["absent"]
    assert skipped["broken"] == skipped["broken-too"] == "it is broken"
    assert broken.starts == 1, "a server that peers share is not tried again"
    assert set(comparison.settings) == {"telesto", "no-queues"}
    for work in WORKS:
        assert "no queues today" in skipped[f"no-queues, {work}"]
        assert list(comparison.runs[work]) == ["telesto"], skipped
        for run in comparison.runs[work]["telesto"]:
            assert run.audit.clean
            assert run.audit.put > 0
            assert (run.audit.handed_over > 0) == (work != "put")
            assert (run.p99_ms >= run.median_ms > 0) == (work == "latency")
            assert run.errors == {}
    text = render(comparison, {"machine": "this one"})
    for expected in ("it is broken", "no queues today", "machine: this one", "Durable puts", "once"):
        assert expected in text
    assert targets(comparison)[-1].reached
    assert any("telesto" in line for line in said)


def test_connections_and_consumers_are_spread_over_processes() -> None:
    peer = FakePeer("fake", IdleServer())
    size = Size(connections=5, consumers=3, processes=2, rate=100.0)
    plans = plans_of(peer, "latency", size, "q", NOWHERE)
    assert [(plan.producers, plan.consumers, plan.rate) for plan in plans] == [(3, 2, 50.0), (2, 1, 50.0)]
    assert plans[0].first_stream != plans[1].first_stream
    assert [plan.consumers for plan in plans_of(peer, "put", size, "q", NOWHERE)] == [0, 0]
    assert {plan.rate for plan in plans_of(peer, "end-to-end", size, "q", NOWHERE)} == {0.0}
    peer.consumers_max = 1
    assert [plan.consumers for plan in plans_of(peer, "latency", size, "q", NOWHERE)] == [1, 0]


@pytest.mark.parametrize(
    ("at_once", "overlap", "work", "expected"),
    [(1, True, "put", 1), (64, True, "put", 64), (64, True, "latency", 1), (64, False, "latency", 64)],
)
def test_calls_that_may_overlap_are_apart_in_the_open_loop(
    at_once: int, overlap: bool, work: Any, expected: int
) -> None:
    peer = FakePeer("fake", IdleServer())
    peer.puts_at_once, peer.calls_overlap = at_once, overlap
    assert {plan.at_once for plan in plans_of(peer, work, Size(), "q", NOWHERE)} == {expected}


def acks(*messages: tuple[float, float]) -> Records:
    """Records of messages: when each was acknowledged, and its delay."""
    made = np.zeros(len(messages), RECORD)
    made["identity"] = range(len(messages))
    made["ended"] = [ended for ended, _ in messages]
    made["latency"] = made["age"] = [delay for _, delay in messages]
    made["operation"] = Operation.ACK
    return made


def test_end_to_end_counts_until_the_queue_is_empty() -> None:
    taken = acks((0.5, 0.1), (1.5, 0.1), (2.0, 0.1), (5.0, 3.0))
    assert drained(taken, Window(1.0, 2.0)) == 3 / 4.0, "not what the window has, nor over its length"
    assert drained(acks(), Window(1.0, 2.0)) == 0.0


def test_delays_are_of_the_messages_that_were_due_in_the_window() -> None:
    taken = acks((0.9, 0.1), (1.5, 0.1), (9.0, 7.5), (2.1, 0.05), (2.05, 0.1))
    found = sorted(delays_of(taken, Window(1.0, 2.0)))
    assert found == pytest.approx([0.1, 0.1, 7.5]), "late ones too"


@pytest.mark.parametrize(("work", "left", "unfinished"), [("put", 5, False), ("latency", 5, True)])
def test_what_consumers_leave_is_told(work: Any, left: int, unfinished: bool) -> None:
    run = summarise(work, acks(), Window(0.0, 1.0), {"client": 1.0}, replace(CLEAN, left=left), {})
    assert run.unfinished == unfinished


def test_the_servers_of_a_kind_are_one() -> None:
    servers = Servers()
    assert CATALOG["pgmq"].make(servers).server is CATALOG["pgqueuer"].make(servers).server
    assert CATALOG["nats"].make(servers).server is not CATALOG["nats-always"].make(servers).server
    assert CATALOG["pgq"].make(servers).server is not CATALOG["pgmq"].make(servers).server
