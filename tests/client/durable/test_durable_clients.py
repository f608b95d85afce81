"""Both clients with a state: whose it is, when it is opened and let go of, what is told of puts."""

import itertools
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer
from fake_service import Fault
from shells import Open, hurry, opening
from telesto.client import (
    ClientClosedError,
    ClientOptions,
    ForkedError,
    InvalidParameterError,
    NewMessage,
    NotConnectedError,
    NotDoneError,
    StateDamagedError,
    StateInUseError,
    StateMismatchError,
    StateWriteError,
    TelestoClient,
    TelestoError,
)
from telesto.client.durable.state_directory import FILE_NAME, StateDirectory
from telesto.client.durable.state_log import StateLog
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode


@pytest.fixture(params=["blocking", "asyncio"])
def open_one(request: pytest.FixtureRequest, fake_server: FakeServer, tmp_path: Path) -> Iterator[Open]:
    """Opens clients with one and the same state, unless told otherwise."""
    with opening(request.param) as open_client:

        def open_with_state(options: ClientOptions | None = None, **attributes: Any) -> Any:
            attributes.setdefault("state_dir", tmp_path / "state")
            return open_client(attributes.pop("url", fake_server.url), options, **attributes)

        yield open_with_state


@pytest.fixture
def queue_id(fake_server: FakeServer) -> int:
    queue_id: int = fake_server.do(lambda: fake_server.service.add_queue("one"))
    return queue_id


def connected(open_one: Open, options: ClientOptions | None = None, **attributes: Any) -> Any:
    # The process before has ended by what the test calls its end, and not in truth.
    client = open_one(options, **attributes, name="alice", existing="take_over")  # type: ignore[arg-type]
    client.connect()
    return client


def stored(fake_server: FakeServer) -> list[bytes]:
    return [body for _, body in fake_server.service.put_bodies]


def test_a_state_has_one_client_at_a_time(open_one: Open) -> None:
    first = connected(open_one)
    second = open_one(name="alice")  # type: ignore[call-arg]
    with pytest.raises(StateInUseError, match="another client of this process"):
        second.connect()
    first.close()
    second.connect()


def test_a_state_is_let_go_of_when_nobody_could_be_reached(open_one: Open, tmp_path: Path) -> None:
    lost = open_one(ClientOptions(connect_tries=1), url="telesto://127.0.0.1:1", name="alice")  # type: ignore[arg-type]
    with pytest.raises(NotConnectedError):
        lost.connect()
    lost.close()
    StateDirectory(tmp_path / "state").close()
    connected(open_one)


def test_the_url_may_name_the_state(open_one: Open, fake_server: FakeServer, tmp_path: Path) -> None:
    url = f"{fake_server.url}/?name=alice&existing=use&state_dir={tmp_path / 'other'}"
    client = open_one(url=url, state_dir=None)  # type: ignore[call-arg]
    client.connect()
    assert (tmp_path / "other" / FILE_NAME).exists()


def test_what_is_in_the_way_is_said_before_anything_is_sent(
    open_one: Open, fake_server: FakeServer, tmp_path: Path
) -> None:
    connected(open_one).close()
    with pytest.raises(StateMismatchError, match="belongs to client 'alice'"):
        open_one(name="bob").connect()  # type: ignore[call-arg]
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / FILE_NAME).write_bytes(b"nothing of the kind")
    with pytest.raises(StateDamagedError, match="move its directory away"):
        open_one(name="bob", state_dir=tmp_path / "damaged").connect()  # type: ignore[call-arg]
    (tmp_path / "file").touch()
    with pytest.raises(StateWriteError, match="cannot be used"):
        open_one(name="bob", state_dir=tmp_path / "file").connect()  # type: ignore[call-arg]
    assert [client.name for client in fake_server.service.clients.values()] == ["alice"]


def test_a_state_needs_records(open_one: Open) -> None:
    with pytest.raises(InvalidParameterError, match="once"):
        open_one(delivery="fast")  # type: ignore[call-arg]


def test_without_a_state_nothing_can_be_told(open_one: Open) -> None:
    client = open_one(state_dir=None)  # type: ignore[call-arg]
    with pytest.raises(InvalidParameterError, match="state_dir"):
        list(client.recovered_puts())


def test_a_put_that_ran_out_of_time_is_told_of(
    open_one: Open, fake_server: FakeServer, queue_id: int
) -> None:
    client = connected(open_one)
    hurry(client, call_timeout=0.2, close_timeout=0.1)
    fake_server.deaf = True
    with pytest.raises(TelestoError):
        client.put_message(queue_id, b"lost")
    client.close()
    fake_server.deaf = False
    client = connected(open_one)
    [told] = client.recovered_puts()
    assert (told.message.body, told.queue_id) == (b"lost", queue_id)
    assert isinstance(told.error, NotDoneError) is (stored(fake_server) == [])
    assert list(client.recovered_puts()) == []


def test_a_put_that_had_returned_is_told_with_what_it_returned(
    open_one: Open, queue_id: int, tmp_path: Path
) -> None:
    client = connected(open_one, ClientOptions(confirm_after=3600))
    returned = [client.put_message(queue_id, body) for body in (b"1", b"2", b"3")]
    shutil.copytree(tmp_path / "state", tmp_path / "killed")  # as a kill leaves it
    [told] = connected(open_one, state_dir=tmp_path / "killed").recovered_puts()
    assert (told.message.body, told.message_id, told.error) == (b"3", returned[-1], None)


def test_a_put_is_told_with_all_that_was_given(open_one: Open, queue_id: int, tmp_path: Path) -> None:
    client = connected(open_one, ClientOptions(confirm_after=3600))
    given = NewMessage(
        b"body",
        7,
        None,
        9,
        dedup_key="once",
        delay=1.5,
        expires=60.0,
        partition_key="customer 7",
        headers={"tenant": "north", "note": ""},
    )
    options = {field.name: getattr(given, field.name) for field in fields(given) if field.name != "body"}
    client.put_message(queue_id, given.body, **options)
    shutil.copytree(tmp_path / "state", tmp_path / "killed")  # as a kill leaves it
    [told] = connected(open_one, state_dir=tmp_path / "killed").recovered_puts()
    assert told.message == given


def test_a_put_that_had_returned_is_not_told_once_that_is_written(
    open_one: Open, fake_server: FakeServer, queue_id: int, tmp_path: Path
) -> None:
    client = connected(open_one)
    client.put_message(queue_id, b"1")
    numbers = itertools.count()

    def written() -> bool:
        copy = tmp_path / f"copy {next(numbers)}"
        shutil.copy(tmp_path / "state" / FILE_NAME, copy)
        return not StateLog(copy).stored.requests

    fake_server.wait_for(written)
    shutil.copytree(tmp_path / "state", tmp_path / "killed")
    assert list(connected(open_one, state_dir=tmp_path / "killed").recovered_puts()) == []


def test_a_put_under_way_at_the_end_is_done_by_the_next_client(
    open_one: Open, fake_server: FakeServer, queue_id: int
) -> None:
    fault = Fault(packets.PutMessage, ErrorCode.OVERLOADED, retry_after_ms=60_000)
    client = connected(open_one)
    hurry(client, close_timeout=0.1)
    fake_server.do(lambda: fake_server.service.faults.append(fault))
    putting = threading.Thread(target=lambda: _ignoring(client.put_message, queue_id, b"once"))
    putting.start()
    fake_server.wait_for(lambda: not fake_server.service.faults)
    client.close()
    putting.join()
    client = connected(open_one)
    told = list(client.recovered_puts())
    assert len(stored(fake_server)) == sum(put.error is None for put in told)


def _ignoring(action: Any, *arguments: Any) -> None:
    with suppress(TelestoError):
        action(*arguments)


def test_closing_notes_what_is_taken_when_the_service_is_gone(
    open_one: Open, fake_server: FakeServer, queue_id: int
) -> None:
    client = connected(open_one)
    client.put_message(queue_id, b"one")
    assert client.retrieve_message(queue_id, timeout=0).text == "one"
    hurry(client, close_timeout=0.1)
    fake_server.deaf = True
    client.close()
    fake_server.deaf = False
    client = connected(open_one)
    assert client.retrieve_message(queue_id, timeout=0) is None
    fake_server.wait_for(lambda: not fake_server.service.deliveries)


def test_a_block_that_fails_gives_back_what_it_had(
    open_one: Open, fake_server: FakeServer, queue_id: int
) -> None:
    client = connected(open_one)
    client.put_message(queue_id, b"one")
    client.retrieve_message(queue_id, timeout=0)
    with pytest.raises(RuntimeError, match="failed"), client:
        raise RuntimeError("failed")
    [message] = fake_server.service.queues[queue_id].messages
    assert message.body == b"one"


def test_a_closed_client_opens_no_state(open_one: Open, tmp_path: Path) -> None:
    client = open_one(name="alice")  # type: ignore[call-arg]
    client.close()
    with pytest.raises(ClientClosedError):
        client.connect()
    StateDirectory(tmp_path / "state").close()


def test_a_forked_child_leaves_the_state_to_its_parent(
    fake_server: FakeServer, queue_id: int, tmp_path: Path
) -> None:
    client = TelestoClient(fake_server.url, state_dir=tmp_path / "state", name="alice")
    client.connect()
    child = os.fork()
    if not child:
        try:
            client.put_message(queue_id, b"from the child")
        except ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.put_message(queue_id, b"from the parent")
    client.close()
    StateDirectory(tmp_path / "state").close()
