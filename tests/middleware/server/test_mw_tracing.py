"""Phases of requests: which are followed, what counts for which phase, how the samples are asked for."""

import asyncio
import csv
import io
from collections.abc import Callable

import pytest

from admin_port import fetch
from conftest import Connect
from telesto.middleware.metrics import tracing
from telesto.middleware.metrics.tracing import COLUMNS, FOLLOWED_MAX, SAMPLES_MAX, Tracer
from telesto.middleware.scheduling.requests import Kind, Mark, Outcome, Pipeline, Read, Request, Wait
from telesto.middleware.server import MiddlewareServer
from test_mw_wake_ups import until_waiting
from wire import Wire

Row = dict[str, str]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(tracing, "monotonic", made)
    return made


def pipeline() -> Pipeline:
    return Pipeline(lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None)


def put(of: Pipeline, kind: Kind = Kind.PUT) -> Request:
    request = Request(of, None, 0, kind, 10)
    of.requests.append(request)
    return request


def waiting_read(of: Pipeline) -> Read:
    read = Read(of, None, 7, Kind.TAKE, 10, Wait((1,), None, by_context=False, selective=False))
    of.waiting[7] = read
    of.requests.append(read)
    return read


def rows_of(text: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(text)))


async def serve(tracer: Tracer, requests: list[Request], outcomes: list[Outcome]) -> None:
    followed = tracer.called(requests)
    tracer.returned(followed)
    tracer.settled(followed, requests, outcomes)
    await asyncio.sleep(0)


@pytest.mark.parametrize("every", [1, 3, 10])
@pytest.mark.parametrize("together", [1, 2, 7, 25])
async def test_every_so_many_th_request_is_followed(every: int, together: int) -> None:
    tracer = Tracer(asyncio.get_running_loop(), every)
    of = pipeline()
    chosen = []
    for _ in range(12):
        admitted = [put(of) for _ in range(together)]
        tracer.admitted(of, together, 1.0)
        found = {place for place, _ in tracer.called(admitted)}
        chosen += [place in found for place in range(together)]
        of.requests.clear()
    assert chosen == [number % every == 0 for number in range(1, 12 * together + 1)]


async def test_each_moment_counts_for_one_phase(clock: Clock) -> None:
    tracer = Tracer(asyncio.get_running_loop(), 1)
    of = pipeline()
    of.answered_at = clock.now
    clock.now += 1
    received_at = clock.now
    read, other = waiting_read(of), put(of)
    clock.now += 0.1
    tracer.admitted(of, 2, received_at)
    requests: list[Request] = [other, read]

    async def call(outcome: Outcome, waited_s: float, called_s: float, answered_s: float = 0.0) -> None:
        clock.now += waited_s
        followed = tracer.called(requests)
        clock.now += called_s
        tracer.returned(followed)
        tracer.settled(followed, requests, [b"", outcome])
        clock.now += answered_s
        await asyncio.sleep(0)

    await call(Mark.BUSY, waited_s=0.2, called_s=0.01)
    await call(Mark.NOTHING, waited_s=0.3, called_s=0.02)
    requests = [read]
    clock.now += 5
    followed = tracer.called(requests)
    clock.now += 0.03
    tracer.returned(followed)
    tracer.settled(followed, requests, [b"answer"])
    clock.now += 0.004
    await asyncio.sleep(0)

    first, second = rows_of(tracer.as_csv(0))
    assert tuple(second) == COLUMNS
    assert (first["kind"], second["kind"]) == ("put", "take")
    told = {name: float(second[name]) for name in COLUMNS if name.endswith("_us")}
    assert told == pytest.approx(
        {
            "client_us": 1e6,
            "parse_us": 0.1e6,
            "fifo_us": 0.5e6,
            "database_us": 0.06e6,
            "parked_us": 5e6,
            "answer_us": 0.004e6,
        },
        abs=1,
    )
    assert (second["tries"], second["batch"], second["together"]) == ("3", "1", "2")
    assert float(second["received_at"]) == received_at


async def test_a_read_that_is_answered_with_nothing_has_its_sample() -> None:
    tracer = Tracer(asyncio.get_running_loop(), 1)
    of = pipeline()
    read = waiting_read(of)
    tracer.admitted(of, 1, 1.0)
    of.waiting.clear()
    await serve(tracer, [read], [Mark.NOTHING])
    assert len(rows_of(tracer.as_csv(0))) == 1


async def test_what_is_never_answered_here_is_given_up() -> None:
    """Parked reads whose clients went, singles: what is kept has a bound."""
    tracer = Tracer(asyncio.get_running_loop(), 1)
    of = pipeline()
    put(of, Kind.SINGLE)
    tracer.admitted(of, 1, 1.0)
    requests = []
    for _ in range(FOLLOWED_MAX + 5):
        requests.append(put(of))
        tracer.admitted(of, 1, 1.0)
    assert [place for place, _ in tracer.called(requests)] == list(range(5, FOLLOWED_MAX + 5))


async def test_one_given_up_while_its_call_runs_does_no_harm() -> None:
    tracer = Tracer(asyncio.get_running_loop(), 1)
    of = pipeline()
    request = put(of)
    tracer.admitted(of, 1, 1.0)
    followed = tracer.called([request])
    for _ in range(FOLLOWED_MAX):
        put(of)
        tracer.admitted(of, 1, 1.0)
    tracer.returned(followed)
    tracer.settled(followed, [request], [b""])
    await asyncio.sleep(0)
    assert len(rows_of(tracer.as_csv(0))) == 1


async def test_a_request_that_was_cancelled_in_the_same_read_is_passed_over() -> None:
    tracer = Tracer(asyncio.get_running_loop(), 1)
    tracer.admitted(pipeline(), 2, 1.0)
    assert rows_of(tracer.as_csv(0)) == []


async def test_samples_are_numbered_and_the_oldest_are_forgotten() -> None:
    tracer = Tracer(asyncio.get_running_loop(), 1)
    of = pipeline()
    for _ in range(SAMPLES_MAX + 3):
        request = put(of)
        tracer.admitted(of, 1, 1.0)
        followed = tracer.called([request])
        tracer.settled(followed, [request], [b""])
        of.requests.clear()
    await asyncio.sleep(0)
    numbers = [int(row["number"]) for row in rows_of(tracer.as_csv(0))]
    assert numbers == list(range(4, SAMPLES_MAX + 4))
    assert [row["number"] for row in rows_of(tracer.as_csv(SAMPLES_MAX + 1))] == ["10002", "10003"]
    assert rows_of(tracer.as_csv(SAMPLES_MAX + 3)) == []


async def sampled(
    server_address: tuple[str, int] | None, query: str, count: Callable[[int], bool]
) -> list[Row]:
    """Asks until there are so many samples: the last ones come a moment after their answers."""
    async with asyncio.timeout(20):
        while True:
            status, body = await fetch(server_address, f"GET /phases{query} HTTP/1.1\r\n\r\n".encode())
            assert status == 200
            rows = rows_of(body.decode())
            if count(len(rows)):
                return rows


@pytest.mark.settings(admin_port=0, phase_every=1)
async def test_samples_are_served(connect: Connect, server: MiddlewareServer) -> None:
    reader, writer = await connect(server), await connect(server)
    await reader.register()
    await writer.register()
    queue_id = await writer.create_queue()
    answer = reader.read(queue_id, wait_ms=60_000)
    await until_waiting(server, 1)
    await writer.put_one(queue_id)
    await answer
    rows = await sampled(server.admin_address, "", lambda count: count >= 2)
    by_kind = {row["kind"]: row for row in rows}
    assert set(by_kind) == {"put", "take"}
    for row in rows:
        assert all(float(row[name]) >= 0 for name in COLUMNS if name.endswith("_us"))
    assert int(by_kind["take"]["tries"]) >= 2
    assert float(by_kind["take"]["parked_us"]) > 0
    assert float(by_kind["put"]["database_us"]) > 0

    last = max(int(row["number"]) for row in rows)
    await writer.put_one(queue_id)
    later = await sampled(server.admin_address, f"?after={last}", lambda count: count >= 1)
    assert [row["number"] for row in later] == [str(last + 1)]
    status, body = await fetch(server.admin_address, b"GET /phases?before=3 HTTP/1.1\r\n\r\n")
    assert (status, body) == (400, b"write /phases?after=NUMBER\n")


@pytest.mark.settings(admin_port=0)
async def test_nothing_is_followed_unless_it_is_wanted(server: MiddlewareServer, wire: Wire) -> None:
    await wire.put_one(await wire.create_queue())
    _, body = await fetch(server.admin_address, b"GET /phases HTTP/1.1\r\n\r\n")
    assert body.decode() == ",".join(COLUMNS) + "\n"
