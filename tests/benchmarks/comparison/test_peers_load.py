"""The generator of load for peers: what is due when, and what is kept of it."""

import asyncio
import math
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from telesto.benchmarks.comparison.load import (
    ERRORS_PER_SLOT_MAX,
    Clock,
    RecordingSink,
    Slot,
    TextBodyMaker,
    identity_of,
    intended_of,
)
from telesto.benchmarks.load.recorder import Operation, Recorder, read_records

FAR = math.inf


class Service:
    """A peer's client that hands over at once what it is given, or fails."""

    def __init__(self, sink: RecordingSink | None = None, fails: bool = False) -> None:
        self.calls: list[int] = []
        self._sink = sink
        self._fails = fails

    async def put(self, bodies: Sequence[bytes]) -> None:
        self.calls.append(len(bodies))
        if self._fails:
            raise ConnectionError("planted")
        if self._sink is not None:
            self._sink.acknowledged(bodies, time.monotonic())

    async def consume(self, sink: object, stop: asyncio.Event) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


def test_a_body_says_who_it_is_and_when_it_was_due() -> None:
    maker = TextBodyMaker(3, 200)
    maker.next(1.0)
    identity, body = maker.next(1234.567891)
    assert (len(body), body.isascii()) == (200, True)
    assert (identity_of(body), identity) == (identity, (3 << 32) + 1)
    assert intended_of(body) == pytest.approx(1234.567891, abs=1e-6)
    with pytest.raises(ValueError, match="31 bytes"):
        TextBodyMaker(0, 31)


async def test_in_a_closed_loop_puts_are_due_at_once_until_the_end() -> None:
    clock = Clock(begin=0.0, end=FAR, interval_s=0.0)
    assert len(await clock.due(64)) == 64
    assert await Clock(begin=0.0, end=time.monotonic(), interval_s=0.0).due(64) == []


async def test_in_an_open_loop_each_put_is_due_once() -> None:
    now = time.monotonic()
    clock = Clock(begin=now - 1.05, end=now - 0.1, interval_s=0.1)
    taken = [await clock.due(4), await clock.due(1), await clock.due(64)]
    assert [len(moments) for moments in taken] == [4, 1, 5]
    assert list(chain(*taken)) == pytest.approx([now - 1.05 + 0.1 * step for step in range(10)])
    assert await clock.due(1) == []


async def test_no_put_is_made_before_it_is_due() -> None:
    begin = time.monotonic() + 0.02
    (moment,) = await Clock(begin, FAR, 1.0).due(64)
    assert moment == begin <= time.monotonic()


@pytest.mark.parametrize("at_once", [1, 7])
async def test_a_stall_counts_for_every_message_that_was_due_in_it(tmp_path: Path, at_once: int) -> None:
    with Recorder(tmp_path / "records") as recorder:
        slot = Slot(Service(RecordingSink(recorder)), at_once, 1, 200, recorder)
        now = time.monotonic()
        # The load began a second ago, and only now does anything go on.
        await slot.run(Clock(begin=now - 1.0, end=now, interval_s=0.01))
    records = read_records(tmp_path / "records")
    puts, acks = (records[records["operation"] == each] for each in (Operation.PUT, Operation.ACK))
    assert len(puts) == len(acks) == pytest.approx(100, abs=1)
    assert list(puts["identity"]) == list(acks["identity"])
    assert np.median(acks["age"]) >= 0.49, "half of the messages were due half a second ago or longer"
    assert acks["age"].max() >= 0.99
    # When each was due can be told from its record, of a put as of an acknowledgement.
    due = [now - 1.0 + 0.01 * number for number in range(len(puts))]
    for found in (puts, acks):
        assert list(found["ended"] - found["latency"]) == pytest.approx(due, abs=1e-4)


async def test_messages_whose_put_failed_are_in_doubt_and_a_slot_gives_up(tmp_path: Path) -> None:
    service = Service(fails=True)
    with Recorder(tmp_path / "records") as recorder:
        await Slot(service, 3, 1, 200, recorder).run(Clock(0.0, FAR, 0.0))
    assert service.calls == [3] * ERRORS_PER_SLOT_MAX
    assert recorder.errors == {"ConnectionError": ERRORS_PER_SLOT_MAX}
    assert len(set(recorder.doubtful)) == 3 * ERRORS_PER_SLOT_MAX
    assert len(read_records(tmp_path / "records")) == 0
