"""Open loops: moments fixed in advance, latency from the intended moment, what was not sent in time."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count, islice, pairwise
from pathlib import Path
from random import Random

import pytest

from telesto.benchmarks.load.pacing import Schedule, SignalTimer, arrival_moments
from telesto.benchmarks.load.recorder import Operation, Recorder, read_records


class Clock:
    """A clock that moves only when somebody waits or says so."""

    def __init__(self) -> None:
        self.now = 0.0

    async def until(self, moment: float) -> None:
        self.now = max(self.now, moment)


def steady(step: float) -> Iterator[float]:
    return (number * step for number in count(1))


async def test_a_stall_shows_in_every_request_whose_moment_fell_into_it(tmp_path: Path) -> None:
    """One server that takes no time, but stands still once for ten requests' worth."""
    clock = Clock()
    schedule = Schedule(steady(1.0), 30.5, clock)
    with Recorder(tmp_path / "records") as recorder:
        number = 0
        while (intended := await schedule.take(clock.now)) is not None:
            number += 1
            sent = clock.now
            clock.now += 10.0 if number == 5 else 0.0
            recorder.add(Operation.PUT, 0, number, intended, sent, clock.now)
    latencies = list(read_records(tmp_path / "records")["latency"])
    assert latencies[:5] == [0, 0, 0, 0, 10]
    assert latencies[5:15] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert set(latencies[15:]) == {0}
    assert len(latencies) == 30
    services = list(read_records(tmp_path / "records")["service"])
    assert [index for index, service in enumerate(services) if service] == [4]
    assert schedule.late == 9
    assert schedule.count_unsent() == 0


async def test_what_was_not_sent_before_the_end_is_counted() -> None:
    clock = Clock()
    schedule = Schedule(steady(1.0), 10.5, clock)
    assert await schedule.take(clock.now) == 1.0
    clock.now = 11.0
    assert await schedule.take(clock.now) is None
    assert schedule.count_unsent() == 9


async def test_slots_share_the_moments() -> None:
    clock = Clock()
    schedule = Schedule(steady(1.0), 4.5, clock)
    taken = [await schedule.take(0.0) for _ in range(5)]
    assert taken == [1.0, 2.0, 3.0, 4.0, None]


def test_fixed_moments_do_not_drift() -> None:
    moments = list(islice(arrival_moments(100.0, 1000.0, "fixed", Random(1)), 100_000))
    assert moments[0] == pytest.approx(100.001)
    assert moments[-1] == pytest.approx(200.0)


def test_poisson_moments_have_the_rate_and_the_spread_of_their_kind() -> None:
    moments = list(islice(arrival_moments(0.0, 500.0, "poisson", Random(7)), 50_000))
    gaps = [after - before for before, after in pairwise(moments)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1 / 500, rel=0.03)
    assert variance**0.5 == pytest.approx(mean, rel=0.05)
    again = list(islice(arrival_moments(0.0, 500.0, "poisson", Random(7)), 10))
    assert again == moments[:10]


async def test_the_alarm_rings_in_order_and_never_early() -> None:
    timer = SignalTimer()
    rung: list[int] = []

    async def wait(number: int, moment: float) -> None:
        await timer.until(moment)
        assert time.monotonic() >= moment
        rung.append(number)

    begin = time.monotonic()
    try:
        await asyncio.gather(*(wait(number, begin + number / 1000) for number in range(20)))
        await timer.until(begin)
    finally:
        timer.close()
    assert rung == list(range(20))
