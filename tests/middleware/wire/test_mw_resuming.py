"""Who resumes a session must be the one who opened it."""

import os

import pytest

from conftest import Connect
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode

TOKEN = bytes(16)


async def test_an_earlier_process_does_not_take_the_client_back(connect: Connect) -> None:
    earlier = await (await connect()).register("alice")
    later = await connect()
    await later.hello()
    assert (await later.ask(packets.IdentifyClient(0, "alice", token=os.urandom(16)))).session == 2
    again = await connect()
    await again.hello()
    refused = await again.ask(packets.IdentifyClient(earlier.client_id, "", token=TOKEN, resume=True))
    assert (refused.code, refused.error_class) == (ErrorCode.SESSION_FENCED, ErrorClass.FATAL)
    # The later one was not disturbed.
    assert await later.create_queue() > 0


async def test_the_same_process_resumes(connect: Connect) -> None:
    first = await connect()
    await first.hello()
    registered = await first.ask(packets.RegisterClient("alice", packets.ClientMode.FULL, TOKEN))
    again = await connect()
    await again.hello()
    resumed = await again.ask(packets.IdentifyClient(registered.client_id, "", token=TOKEN, resume=True))
    assert resumed.session == 2


async def test_an_attempt_that_comes_late_is_refused(connect: Connect) -> None:
    client_id = 0
    for attempt in (1, 3):
        wire = await connect()
        await wire.hello()
        if attempt == 1:
            packet = packets.RegisterClient("alice", packets.ClientMode.FULL, TOKEN, attempt=attempt)
            client_id = (await wire.ask(packet)).client_id
        else:
            await wire.ask(packets.IdentifyClient(client_id, "", token=TOKEN, resume=True, attempt=attempt))
    late = await connect()
    await late.hello()
    refused = await late.ask(packets.IdentifyClient(client_id, "", token=TOKEN, resume=True, attempt=2))
    assert refused.code == ErrorCode.SESSION_FENCED
    late = await connect()
    await late.hello()
    refused = await late.ask(packets.RegisterClient("alice", packets.ClientMode.FULL, TOKEN, attempt=2))
    assert refused.code == ErrorCode.SESSION_FENCED


@pytest.mark.parametrize(
    "fields", [{"resume": True}, {"token": b"short"}, {"token": b"", "resume": True}], ids=str
)
async def test_a_token_that_is_none_is_refused(connect: Connect, fields: dict[str, object]) -> None:
    wire = await connect()
    await wire.hello()
    refused = await wire.ask(packets.IdentifyClient(0, "alice", **fields))  # type: ignore[arg-type]
    assert refused.code == ErrorCode.INVALID_PARAMETER
    assert "token" in refused.details
