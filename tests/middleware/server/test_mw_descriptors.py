"""A real process that may open few files: it keeps some for itself, and says what it refuses."""

import asyncio
import json
from pathlib import Path
from typing import Any

from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from test_mw_attacks import close_all, service
from wire import PATIENCE_S, Wire, hello, until

COMERS = 200


async def come(port: int) -> list[tuple[Wire, Any]]:
    """Many clients come at once; gives for each what it is told first."""

    async def one() -> tuple[Wire, Any]:
        wire = await Wire.open(("127.0.0.1", port))
        answer = wire.send(hello())
        told = asyncio.ensure_future(wire.unasked.get())
        await asyncio.wait([answer, told], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        first = told if told.done() else answer
        told.cancel()
        return wire, await first

    return await asyncio.gather(*(one() for _ in range(COMERS)))


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_those_that_find_no_place_are_told_and_all_else_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with service(database_url, log=log, ulimit="-n 128", log_json=True) as middleware:
        (warning,) = [event for event in events(log) if event["event"] == "few_descriptors"]
        places = warning["max_connections"]
        assert 0 < places < 100
        for _ in range(2):
            comers = await come(middleware.port)
            served = [wire for wire, answer in comers if isinstance(answer, packets.HelloResponse)]
            refused = [answer for _, answer in comers if isinstance(answer, packets.Error)]
            assert (len(served), len(refused)) == (places, COMERS - places)
            assert {(error.code, error.error_class) for error in refused} == {
                (ErrorCode.TOO_MANY_CONNECTIONS, ErrorClass.FATAL)
            }
            # Who has a place is served with all that it needs; so is the admin port.
            client = packets.RegisterClient("one of them", packets.ClientMode.FULL, bytes(16))
            assert not isinstance(await served[0].ask(client), packets.Error)
            assert isinstance(
                await served[0].ask(packets.CreateQueue(1, [], "queue", packets.QueueSettings())),
                packets.CreateQueueResponse,
            )
            # The others have not said who they are, and give way.
            assert await middleware.health() == "ready\n"
            await served[0].ask(packets.DeleteQueue(2, [1], 1))
            await close_all([wire for wire, _ in comers])
            await until(lambda: nobody_there(middleware))
        # One line at once and one that counts the others: 10 s are not over, so there is the first.
        lines = [event for event in events(log) if event["event"] == "connection_refused"]
        assert len(lines) < 4
        assert lines[0]["peer"].startswith("127.0.0.1:")
        assert await middleware.metric('telesto_refused_total{code="34"}') == 2 * (COMERS - places)


async def nobody_there(middleware: Any) -> bool:
    return await middleware.metric("telesto_connections") == 0


async def test_the_limit_is_raised_as_far_as_it_may_be(database_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with service(
        database_url, log=log, ulimit="-Sn 128", log_json=True, max_connections=300
    ) as middleware:
        comers = await come(middleware.port)
        assert all(isinstance(answer, packets.HelloResponse) for _, answer in comers)
        assert not [event for event in events(log) if event["event"] == "few_descriptors"]
        await close_all([wire for wire, _ in comers])
