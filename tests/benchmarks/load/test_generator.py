"""The process that generates load, with clients that do what a test plants."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from telesto.benchmarks.load.bodies import ENVELOPE_BYTES, BodyMaker, open_envelope
from telesto.benchmarks.load.generator import Generator
from telesto.benchmarks.load.plan import Participant, Role, WorkloadPlan
from telesto.benchmarks.load.recorder import Operation, Recorder, Records, read_records
from telesto.benchmarks.load.settings import RunSettings
from telesto.client import QueueFullError

RATE = 100.0
SECONDS = 0.6
STALL_S = 0.3


class PlantedClient:
    """Takes puts as the test says."""

    def __init__(self, put: Callable[[int], Any]) -> None:
        self.puts: list[bytes] = []
        self._put = put

    async def put_message(self, _queue_id: int, body: bytes, **_options: object) -> int:
        self.puts.append(body)
        await self._put(len(self.puts))
        return len(self.puts)


def plan_of(path: Path, role: Role, **values: Any) -> WorkloadPlan:
    rate = values.pop("rate", None)
    settings = RunSettings(warm_up_s=0, duration_s=SECONDS, cool_down_s=0, **values)
    participants = (Participant(0, "one", role, 1),)
    return WorkloadPlan(("telesto://nowhere",), participants, settings, str(path), seed=1, rate=rate)


async def run(plan: WorkloadPlan, client: PlantedClient) -> tuple[Recorder, Records, float]:
    begin = time.monotonic()
    with Recorder(Path(plan.records)) as recorder:
        await Generator(plan, [client], recorder).run(begin)  # type: ignore[list-item]
    return recorder, read_records(Path(plan.records)), begin


async def test_an_open_loop_counts_a_stall_in_every_request_that_fell_into_it(tmp_path: Path) -> None:
    """Whatever the speed of the machine: what a request took is told from its moment of the schedule."""

    async def stall_once(number: int) -> None:
        if number == 1:
            await asyncio.sleep(STALL_S)

    client = PlantedClient(stall_once)
    plan = plan_of(tmp_path / "records", "putter", rate=RATE, arrivals="fixed")
    recorder, records, begin = await run(plan, client)
    moments = [begin + (number + 1) / RATE for number in range(len(records))]
    assert list(records["latency"]) == pytest.approx(records["ended"] - moments, abs=1e-4)
    assert [open_envelope(body).moment for body in client.puts] == pytest.approx(moments)
    # The stall was in one request; the others, which the loop sent late, have it all the same.
    assert records["service"][0] >= STALL_S - 1e-3
    fell_into_it = [moment for moment in moments if moment < records["ended"][0]]
    stalled = records[1 : len(fell_into_it)]
    assert all(stalled["latency"] > stalled["service"])
    assert recorder.late >= len(stalled) - 1
    assert len(records) + recorder.unsent == sum(1 for n in range(1, 1000) if n / RATE < SECONDS)
    # On a machine that is so slow that the time was over, there are only unsent ones.
    assert len(fell_into_it) >= STALL_S * RATE - 1 or recorder.unsent


#: Far longer than the time from one request to the next.
SLOW_S = 0.1


async def test_places_are_bounded(tmp_path: Path) -> None:
    """With every place taken nothing more is sent, and what was not sent is counted."""
    under_way = most = 0

    async def never_quick(_number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(SLOW_S)
        under_way -= 1

    plan = plan_of(tmp_path / "records", "putter", rate=1000.0, in_flight=3)
    recorder, records, _ = await run(plan, PlantedClient(never_quick))
    assert most == 3
    assert recorder.unsent > len(records)


async def test_a_put_that_failed_is_in_doubt(tmp_path: Path) -> None:
    async def refuse(number: int) -> None:
        await asyncio.sleep(0)
        if number % 2:
            raise QueueFullError("full")

    recorder, records, _ = await run(plan_of(tmp_path / "records", "putter"), client := PlantedClient(refuse))
    identities = [open_envelope(body).identity for body in client.puts]
    assert recorder.doubtful == identities[::2]
    assert list(records["identity"]) == identities[1::2]
    assert set(records["operation"]) == {Operation.PUT}
    assert recorder.errors == {"put: QueueFullError": len(identities[::2])}


def test_bodies_carry_their_envelope_in_the_size_that_is_asked_for() -> None:
    bodies = BodyMaker(7, 100)
    first, body = bodies.next(12.5, 9)
    second, _ = bodies.next(13.0, 1)
    assert (first, second) == (7 << 32, (7 << 32) + 1)
    assert len(body) == 100
    assert open_envelope(body) == (first, 12.5, 9)
    assert len(BodyMaker(1, ENVELOPE_BYTES).next(0.0, 1)[1]) == ENVELOPE_BYTES
    with pytest.raises(ValueError, match="cannot hold an envelope"):
        BodyMaker(1, ENVELOPE_BYTES - 1)
    with pytest.raises(ValueError, match="holds no envelope"):
        open_envelope(b"short")


def test_a_plan_comes_back_from_json(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "records", "one-way", rate=3.5)
    plan = replace(
        plan,
        participants=(
            replace(plan.participants[0], peers=(4, 5)),
            Participant(1, "two", "publisher", "topic"),
        ),
    )
    assert WorkloadPlan.of(json.loads(json.dumps(plan.as_plain()))) == plan
