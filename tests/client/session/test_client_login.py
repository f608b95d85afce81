"""The session core logs in: at first, again after a lost connection, and what it does when it may not."""

from pathlib import Path

import pytest

from fake_service import FakeService, Fault
from harness import Clock, Wire
from memory_state import MemoryState
from telesto.client.calls.queue_calls import DONE, PutCall, ReadCall
from telesto.client.errors import LoginsPausedError, NotConnectedError
from telesto.client.url import Credentials, parse_url
from telesto.protocol import packets
from telesto.protocol.errors import (
    AuthenticationFailedError,
    ConnectionLostError,
    ErrorClass,
    ErrorCode,
    TelestoError,
)
from telesto.protocol.packets import ReadMode

PASSWORD = "hunter2 horse, battery"
ALICE = Credentials("alice", PASSWORD)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(clock: Clock) -> FakeService:
    service = FakeService(clock)
    service.passwords = {"alice": PASSWORD}
    return service


def wire_of(clock: Clock, service: FakeService, credentials: Credentials = ALICE) -> Wire:
    return Wire(clock, service, credentials=credentials)


def steps(service: FakeService) -> list[str]:
    return [type(packet).__name__ for packet in service.received]


def test_it_logs_in_before_it_becomes_the_client(clock: Clock, service: FakeService) -> None:
    wire = wire_of(clock, service)
    wire.connect()
    assert steps(service) == ["Hello", "Authenticate", "Authenticate", "RegisterClient"]
    assert not any(PASSWORD.encode() in getattr(packet, "data", b"") for packet in service.received)
    queue_id = service.add_queue("queue")
    wire.run(PutCall(queue_id, b"x", 5, None, None))


def test_it_logs_in_again_after_a_lost_connection_and_what_was_under_way_is_done_once(
    clock: Clock, service: FakeService
) -> None:
    wire = wire_of(clock, service)
    wire.connect()
    queue_id = service.add_queue("queue")
    call = wire.start(PutCall(queue_id, b"x", 5, None, None))
    wire.reach_service()
    wire.cut()
    wire.settle()
    wire.finish(call)
    assert service.put_bodies == [(queue_id, b"x")]
    assert steps(service).count("Authenticate") == 4


def test_a_session_with_a_state_logs_in(clock: Clock, service: FakeService) -> None:
    wire = Wire(clock, service, state=MemoryState(), credentials=ALICE)
    wire.connect()
    assert steps(service)[:3] == ["Hello", "Authenticate", "Authenticate"]


def test_a_ping_waits_for_the_login(clock: Clock, service: FakeService) -> None:
    wire = wire_of(clock, service)
    call = wire.session.ping()
    wire.settle()
    assert call.phase == DONE
    assert steps(service) == ["Hello", "Authenticate", "Authenticate", "Ping"]


@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        (Credentials("alice", "wrong"), "refuses the login of 'alice'"),
        (Credentials("nobody", PASSWORD), "refuses the login of 'nobody'"),
        (Credentials(), "asks for a login"),
        (Credentials("alice"), "no password"),
        (Credentials(password=PASSWORD), "no user"),
        (Credentials("alice", password_file="/nowhere/password"), "cannot read"),
        (Credentials("alice", "\u0007"), "RFC 4013"),
    ],
)
def test_a_client_that_may_not_log_in_is_told_at_once_and_does_not_try_again(
    clock: Clock, service: FakeService, credentials: Credentials, words: str
) -> None:
    wire = wire_of(clock, service, credentials)
    with pytest.raises(AuthenticationFailedError, match=words):
        wire.connect()
    assert wire.session.next_attempt is None
    hellos = steps(service).count("Hello")
    wire.advance(60.0)
    assert steps(service).count("Hello") == hellos
    ping = wire.session.ping()
    wire.settle()
    with pytest.raises(AuthenticationFailedError, match=words):
        wire.finish(ping)


def test_a_client_that_was_connected_ends_when_it_may_not_log_in_again(
    clock: Clock, service: FakeService
) -> None:
    """And connect() tries again."""
    wire = wire_of(clock, service)
    wire.connect()
    queue_id = service.add_queue("queue")
    service.passwords = {"alice": "another"}
    wire.cut()
    wire.settle()
    for _ in range(2):
        with pytest.raises(AuthenticationFailedError, match=r"login of 'alice'.*connect\(\) tries"):
            wire.run(PutCall(queue_id, b"x", 5, None, None))
    service.passwords = {"alice": PASSWORD}
    wire.connect(existing="use")
    wire.run(PutCall(queue_id, b"x", 5, None, None))


def test_a_service_that_hears_nobody_for_a_while_is_asked_again_after_that(
    clock: Clock, service: FakeService
) -> None:
    wire = wire_of(clock, service)
    overloaded = Fault(packets.Authenticate, ErrorCode.OVERLOADED, ErrorClass.RETRYABLE, retry_after_ms=7_000)
    service.faults = [overloaded]
    call = wire.session.connect(wire.identity("alice"))
    wire.settle()
    wire.advance(6.5)
    assert steps(service).count("Hello") == 1
    wire.advance(1.0)
    wire.finish(call)


def test_a_read_under_way_tells_that_its_user_may_not_log_in_again(
    clock: Clock, service: FakeService
) -> None:
    """And a put that may have been done is in doubt."""
    wire = wire_of(clock, service)
    wire.connect()
    queue_id = service.add_queue("queue")
    reading = wire.start(ReadCall(queue_id, None, ReadMode.PRIORITY, None, 1))
    wire.settle()
    putting = wire.start(PutCall(queue_id, b"x", 5, None, None))
    wire.reach_service()
    service.passwords = {"alice": "another"}
    wire.cut()
    wire.settle()
    with pytest.raises(AuthenticationFailedError, match="refuses the login"):
        wire.finish(reading)
    with pytest.raises(ConnectionLostError, match="may have been done") as raised:
        wire.finish(putting)
    assert isinstance(raised.value.__cause__, AuthenticationFailedError)


def test_a_refused_login_says_what_to_check_and_where_the_secret_came_from(
    clock: Clock, service: FakeService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    for variable, value, source in (
        ("TELESTO_PASSWORD", "hunter2", "(from TELESTO_PASSWORD)"),
        ("TELESTO_PASSWORD_FILE", str(tmp_path / "password"), f"TELESTO_PASSWORD_FILE={tmp_path}/password"),
        (None, None, "(from the URL)"),
    ):
        with monkeypatch.context() as environment:
            if variable and value:
                environment.setenv(variable, value)
            url = "telesto://alice@a" if variable else "telesto://alice:hunter2@a"
            credentials = parse_url(url).credentials
        with pytest.raises(AuthenticationFailedError) as raised:
            wire_of(clock, service, credentials).connect()
        for words in ("'alice'", source, "whatever is wrong", "log of the middleware", "login_failed"):
            assert words in raised.value.details
        assert "hunter2" not in raised.value.details


def test_paused_logins_are_told_with_the_reason_and_the_time(clock: Clock, service: FakeService) -> None:
    wire = wire_of(clock, service)
    service.faults = [
        Fault(packets.Authenticate, ErrorCode.OVERLOADED, ErrorClass.RETRYABLE, retry_after_ms=20_001)
        for _ in range(2)
    ]
    call = wire.session.connect(wire.identity("alice"))
    wire.settle()
    hindrance = wire.session.hindrance
    assert isinstance(hindrance, LoginsPausedError)
    assert hindrance.details.startswith("logins are paused for 21 s: ")
    wire.advance(30.5)
    with pytest.raises(NotConnectedError, match="not connected within 30 s: logins are paused") as raised:
        wire.finish(call)
    assert isinstance(raised.value.__cause__, LoginsPausedError)


def test_a_client_with_a_user_refuses_a_service_without_a_login(clock: Clock, service: FakeService) -> None:
    service.passwords = {}
    wire = wire_of(clock, service)
    with pytest.raises(TelestoError, match="asks for no login, but the client has the user 'alice'"):
        wire.connect()


def test_a_connection_that_is_slow_to_answer_a_login_is_asked_whether_it_lives(
    clock: Clock, service: FakeService
) -> None:
    """The answer of a failed login is delayed; the connection is not given up for it."""
    wire = wire_of(clock, service)
    wire.session.connect(wire.identity("alice"))
    wire.open_link()
    wire.reach_service()
    wire.collect()
    wire.deliver_to_client()  # the answer to Hello
    wire.reach_service()
    wire.collect()
    held, wire.to_client = wire.to_client, b""
    for _ in range(30):
        wire.clock.now += 0.1
        wire.session.tick()
        wire.reach_service()
        wire.collect()
        wire.deliver_to_client()
    assert wire.session.link is wire.link
    assert "Ping" in steps(service)
    wire.session.feed(held)
    wire.settle()
    assert wire.session.connected
