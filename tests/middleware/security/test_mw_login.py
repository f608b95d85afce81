"""Logins by raw packets: each mechanism, what is refused, and what failures cost."""

import asyncio
import json
import random
import ssl
import statistics
import time
from pathlib import Path
from typing import Any

import jwt
import psycopg
import pytest
import scramp
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from conftest import Connect, StartMiddleware
from logins import PASSWORD, ScramLogin, add_user, open_tls, required
from telesto.middleware.common import listening, logs
from telesto.middleware.common.audit import AuditLog
from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.event_log import EventLog
from telesto.middleware.common.failures import FailedError
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.common.tls import user_of
from telesto.middleware.security import login, users
from telesto.middleware.security.login import (
    FAILED,
    Channel,
    Login,
    LoginLimits,
    Logins,
    escaped,
    make_verifier,
    read_verifier,
)
from telesto.middleware.security.tokens import TokenError, TokenKeyError, TokenKeys
from telesto.middleware.security.users import User, UserQuotas
from telesto.middleware.server import MiddlewareServer, serve
from telesto.middleware.wire.quotas import is_loopback
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import ConnectionState
from wire import FULL, PATIENCE_S, Wire, frame, until


@pytest.fixture
async def guarded(server: MiddlewareServer, database_url: str) -> MiddlewareServer:
    """A middleware that asks for a login; there is the user alice."""
    add_user(database_url, "alice", administrator=True)
    await required(server)
    return server


def failed(answer: Any) -> bool:
    """Whether an answer is that of every failed login."""
    return isinstance(answer, packets.Error) and (answer.code, answer.error_class, answer.details) == (
        ErrorCode.AUTHENTICATION_FAILED,
        ErrorClass.FATAL,
        FAILED,
    )


async def register(wire: Wire) -> Any:
    return await wire.ask(packets.RegisterClient("client", FULL, b"t" * 16))


# ------------------------------------------------------------------------------------------- SCRAM
async def test_a_password_logs_in(guarded: MiddlewareServer, connect: Connect) -> None:
    wire = await connect()
    assert (await wire.hello()).mechanisms == ["SCRAM-SHA-256"]
    assert isinstance(await ScramLogin(wire, "alice").whole(), packets.AuthenticateResponse)
    assert isinstance(await register(wire), packets.RegisterClientResponse)
    (connection,) = guarded.connections.snapshot()
    assert connection.pipeline.user is not None
    assert connection.pipeline.user.name == "alice"


@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "wrong"), ("nobody", PASSWORD), ("carol", PASSWORD), ("bob", PASSWORD), ("ALICE", PASSWORD)],
)
async def test_every_failure_looks_the_same(
    guarded: MiddlewareServer, connect: Connect, database_url: str, user: str, password: str
) -> None:
    """A wrong password, a user that does not exist, one without a password, one that is disabled."""
    add_user(database_url, "carol", None)
    add_user(database_url, "bob", enabled=False)
    wire = await connect()
    await wire.hello()
    assert failed(await ScramLogin(wire, user, password).whole())
    await asyncio.wait_for(wire.closed(), PATIENCE_S)


async def test_an_unknown_user_always_gets_the_same_salt_on_every_middleware(
    guarded: MiddlewareServer, start_middleware: StartMiddleware
) -> None:
    challenges = []
    other = await start_middleware()
    for server in (guarded, guarded, other):
        for user in ("alice", "nobody", "somebody"):
            wire = await Wire.open(server.address)
            await wire.hello()
            answer = await ScramLogin(wire, user).begin()
            nonce, salt, iterations = answer.data.decode().split(",")
            challenges.append((user, salt, iterations, len(nonce)))
            await wire.close()
    assert len(set(challenges)) == 3
    assert len({(iterations, nonce, len(salt)) for _, salt, iterations, nonce in challenges}) == 1


async def test_nothing_is_hashed_for_a_login(
    guarded: MiddlewareServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The middleware never repeats a hash, for a known or unknown user: none costs more than another."""
    import hashlib

    wires = [await connect() for _ in range(2)]
    logins = []
    for wire, user in zip(wires, ("alice", "nobody"), strict=True):
        await wire.hello()
        attempt = ScramLogin(wire, user)
        logins.append((attempt, await attempt.begin()))
    finals = []
    for attempt, challenge in logins:
        attempt.scram.set_server_first(challenge.data.decode())
        finals.append((attempt, attempt.scram.get_client_final()))
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)
    first, second = [await attempt.say(final) for attempt, final in finals]
    assert first.done
    assert failed(second)


async def test_the_rights_of_a_user_are_not_looked_at_before_its_login(
    guarded: MiddlewareServer, connect: Connect, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To compile many patterns takes some 20 ms, which would tell that there is the user."""
    add_user(database_url, "many", put=[f"orders-{number}-*" for number in range(64)])
    monkeypatch.setattr(users, "_expression", None)
    wire = await connect()
    await wire.hello()
    assert (await ScramLogin(wire, "many").whole()).done


async def test_unknown_users_take_as_long_as_known_ones(guarded: MiddlewareServer, connect: Connect) -> None:
    """Medians of the first answer; the bound is wide, for what would tell would be a hash, some 7 ms."""
    took: dict[str, list[float]] = {"alice": [], "nobody": []}
    for _ in range(15):
        for user, times in took.items():
            wire = await connect()
            await wire.hello()
            attempt = ScramLogin(wire, user)
            begun = time.perf_counter()
            await attempt.begin()
            times.append(time.perf_counter() - begun)
            await wire.close()
    known, unknown = (statistics.median(times) for times in took.values())
    assert abs(known - unknown) < 0.5 * max(known, unknown) + 0.003


async def test_a_proof_is_of_one_exchange(guarded: MiddlewareServer, connect: Connect) -> None:
    """A recorded exchange, sent again, proves nothing: the nonce of the middleware is another one."""
    wire = await connect()
    await wire.hello()
    attempt = ScramLogin(wire, "alice")
    first = attempt.scram.get_client_first()
    attempt.scram.set_server_first((await attempt.say(first)).data.decode())
    final = attempt.scram.get_client_final()
    assert (await attempt.say(final)).done
    replay = await connect()
    await replay.hello()
    again = ScramLogin(replay, "alice")
    assert not (await again.say(first)).done
    assert failed(await again.say(final))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"n,,",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"p=tls-server-end-point,,n=alice,r=abc",
        b"n,,m=ext,n=alice,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice\x00,r=abc",
        b"n,," + b"," * 3_000,
        "n,,n=\u202eecila,r=abc".encode(),
    ],
)
async def test_garbage_in_the_first_message(guarded: MiddlewareServer, connect: Connect, data: bytes) -> None:
    wire = await connect()
    await wire.hello()
    assert failed(await wire.ask(packets.Authenticate("SCRAM-SHA-256", data)))


@pytest.mark.parametrize("final", ["", "c=biws", "c=biws,r=x,p=AAAA", "c=eSws,r={nonce},p={proof}", "v=abc"])
async def test_garbage_in_the_second_message(guarded: MiddlewareServer, connect: Connect, final: str) -> None:
    wire = await connect()
    await wire.hello()
    attempt = ScramLogin(wire, "alice")
    challenge = await attempt.begin()
    attempt.scram.set_server_first(challenge.data.decode())
    fields = dict(part.split("=", 1) for part in attempt.scram.get_client_final().split(","))
    assert failed(await attempt.say(final.format(nonce=fields["r"], proof=fields["p"])))


async def test_a_login_is_of_one_mechanism_that_was_offered(
    guarded: MiddlewareServer, connect: Connect
) -> None:
    for mechanism in ("PLAIN", "", "EXTERNAL", "OAUTHBEARER", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "x" * 900):
        wire = await connect()
        await wire.hello()
        attempt = ScramLogin(wire, "alice")
        await attempt.begin()
        assert failed(await wire.ask(packets.Authenticate(mechanism, b"\0alice\0" + PASSWORD.encode())))
        guarded_limits(guarded)


def guarded_limits(server: MiddlewareServer) -> None:
    """Forgets what failed, so that a test is not kept waiting."""
    limits = server._services.logins.limits  # noqa: SLF001
    limits._counts.clear()  # noqa: SLF001


async def test_a_login_has_so_many_steps_and_ends(guarded: MiddlewareServer, connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    attempt = ScramLogin(wire, "alice")
    assert (await attempt.whole()).done
    answer = await attempt.say("c=biws,r=x,p=AAAA")
    assert (answer.code, answer.error_class) == (ErrorCode.UNEXPECTED_PACKET, ErrorClass.REJECTED)
    assert isinstance(await register(wire), packets.RegisterClientResponse)


async def test_nothing_but_a_login_before_it(guarded: MiddlewareServer, connect: Connect) -> None:
    wire = await connect()
    assert (await wire.ask(packets.Authenticate("SCRAM-SHA-256", b""))).code == ErrorCode.UNEXPECTED_PACKET
    await wire.hello()
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    for packet in (
        packets.RegisterClient("client", FULL, b"t" * 16),
        packets.IdentifyClient(1, ""),
        packets.CreateQueue(1, [], "queue", packets.QueueSettings()),
        packets.Confirm([], [], []),
    ):
        answer = await wire.ask(packet)
        assert (answer.code, answer.error_class) == (ErrorCode.NOT_AUTHENTICATED, ErrorClass.REJECTED)
    assert (await ScramLogin(wire, "alice").whole()).done
    assert (await wire.ask(packets.Confirm([], [], []))).code == ErrorCode.NOT_IDENTIFIED


async def test_a_middleware_that_stops_finishes_nothing_for_who_has_not_logged_in(
    guarded: MiddlewareServer, connect: Connect
) -> None:
    wire = await connect()
    await wire.hello()
    (connection,) = guarded.connections.snapshot()
    connection.go_away(packets.GoAway("about to stop", []))
    for info in packets.REQUESTS.values():
        if ConnectionState.DRAINING in info.allowed and info.packet is not packets.Ping:
            packet_id, answer = wire.expect()
            wire.write(frame(info.packet.METHOD_ID, packet_id, b""))
            assert (await asyncio.wait_for(answer, PATIENCE_S)).code == ErrorCode.SHUTTING_DOWN
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


async def test_steps_sent_without_waiting_are_refused(guarded: MiddlewareServer, connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    answers = [wire.send(packets.Authenticate("SCRAM-SHA-256", b"n,,n=alice,r=abc")) for _ in range(3)]
    first, *others = [await asyncio.wait_for(answer, PATIENCE_S) for answer in answers]
    assert isinstance(first, packets.AuthenticateResponse)
    assert {answer.code for answer in others} == {ErrorCode.UNEXPECTED_PACKET}


@pytest.mark.settings(identify_limit_s=0.3)
async def test_a_login_that_is_not_completed_ends_in_time(
    guarded: MiddlewareServer, connect: Connect
) -> None:
    wire = await connect()
    await wire.hello()
    await ScramLogin(wire, "alice").begin()
    await asyncio.wait_for(wire.closed(), PATIENCE_S)
    assert guarded.counters.aborted_total == {"not_identified": 1}


class OneUser:
    """A registry with the user alice."""

    required = True
    secret = b"s" * 32

    def __init__(self) -> None:
        rights: dict[str, list[str]] = {name: [] for name in ("configure", "put", "get", "admin", "clients")}
        columns = {"user_id": 1, "name": "alice", "verifier": make_verifier(PASSWORD), "enabled": True}
        quotas = {f"max_{name}": None for name in UserQuotas._fields}
        stored = {"stored_messages": None, "stored_bytes": None}
        tags = {"administrator": False, "monitor": False}
        self.alice = User({**columns, **tags, **rights, **quotas, **stored})

    async def find(self, name: str) -> User | None:
        return self.alice if name == "alice" else None


def spoiled(chance: random.Random, messages: list[bytes]) -> bytes:
    """One of the messages, with a few bytes changed."""
    data = bytearray(chance.choice(messages))
    for _ in range(chance.choice([0, 1, 1, 3])):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randrange(20)]
            case 2:
                data[at:at] = data[: chance.randrange(40)]
            case _:
                data[at:at] = chance.choice([b"\0", b",", b"=", b"\x01", b"r=", b"\xff", b"\xc3\xa9"])
    return bytes(data)


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_nearly_a_login_is_refused_and_breaks_nothing(seed: int, tmp_path: Path) -> None:
    """Messages of every mechanism with bytes changed, dropped, doubled and added."""
    chance = random.Random(seed)
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    loop = asyncio.get_running_loop()
    events = EventLog("test", loop.time, Deadlines(loop))
    audit = AuditLog(None, loop.time, Deadlines(loop))
    registry: Any = OneUser()
    logins = Logins(registry, TokenKeys(file, None, None), events, audit, lambda _reason: None, loop.time)
    channel = Channel("peer", "1.2.3.4", private=True, certificate=True, certificate_user="bob")
    offered = logins.mechanisms(channel)
    assert offered == ["EXTERNAL", "SCRAM-SHA-256", "OAUTHBEARER"]
    token = jwt.encode(claims(sub="bob"), SECRET, "HS256")
    for _ in range(700):
        logins.limits._counts.clear()  # noqa: SLF001
        scram = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "wrong")
        messages = [
            scram.get_client_first().encode(),
            f"n,,\x01auth=Bearer {token}\x01\x01".encode(),
            b"bob",
            bytes(3_000),
        ]
        attempt = Login(logins, channel, offered)
        failure = None
        for _step in range(4):
            try:
                answer, user = await attempt.step(chance.choice(offered), spoiled(chance, messages))
            except FailedError as error:
                failure = error.failure
                break
            assert user is None
            messages.append(b"c=biws," + answer.split(b",")[0] + b",p=" + b"A" * 43 + b"=")
        assert failure is not None
        assert failure.code == ErrorCode.AUTHENTICATION_FAILED
    assert len(logins.limits) <= 2


# ------------------------------------------------------------------------------ who has to log in
async def test_the_first_user_closes_the_door(
    server: MiddlewareServer, wire: Wire, start_middleware: StartMiddleware, database_url: str
) -> None:
    """On every middleware, within a second, also for connections that are open."""
    other = await start_middleware()
    elsewhere = await Wire.open(other.address)
    await elsewhere.register()
    fresh = await Wire.open(other.address)
    assert (await fresh.hello()).mechanisms == []
    begun = time.monotonic()
    add_user(database_url, "alice", enabled=False)
    for open_wire in (wire, elsewhere, fresh):
        error = await asyncio.wait_for(open_wire.unasked.get(), PATIENCE_S)
        assert (error.code, error.error_class) == (ErrorCode.NOT_AUTHENTICATED, ErrorClass.FATAL)
        await asyncio.wait_for(open_wire.closed(), PATIENCE_S)
    assert time.monotonic() - begun < 1.0
    late = await Wire.open(server.address)
    assert (await late.hello()).mechanisms == ["SCRAM-SHA-256"]
    for open_wire in (elsewhere, fresh, late):
        await open_wire.close()


async def test_the_connections_of_a_user_end_when_it_is_disabled(
    guarded: MiddlewareServer, connect: Connect, database_url: str
) -> None:
    add_user(database_url, "bob")
    wires = {}
    for user in ("alice", "bob"):
        wires[user] = await connect()
        await wires[user].hello()
        assert (await ScramLogin(wires[user], user).whole()).done
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE telesto.users SET enabled = false WHERE name = 'bob'")
    error = await asyncio.wait_for(wires["bob"].unasked.get(), PATIENCE_S)
    assert failed(error)
    await asyncio.wait_for(wires["bob"].closed(), PATIENCE_S)
    assert isinstance(await wires["alice"].ask(packets.Ping()), packets.Pong)


async def test_a_user_that_is_deleted_during_its_login_is_refused(
    guarded: MiddlewareServer, connect: Connect, database_url: str
) -> None:
    add_user(database_url, "bob")
    wire = await connect()
    await wire.hello()
    attempt = ScramLogin(wire, "bob")
    challenge = await attempt.begin()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DELETE FROM telesto.users WHERE name = 'bob'")
    await guarded.users.read_again()
    assert failed(await attempt.prove(challenge))


# ------------------------------------------------------------------------------------- what it costs
async def test_failures_are_logged_and_counted_by_reason(
    guarded: MiddlewareServer, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("info", json=True)
    for user, password in (("alice", "sesame-1"), ('no\u00e9"body', "sesame-2")):
        wire = await connect()
        await wire.hello()
        assert failed(await ScramLogin(wire, user, password).whole())
    out = "".join(capsys.readouterr())
    assert out.count("login_failed") == 2
    assert '"reason": "invalid_proof"' in out
    assert '"reason": "unknown_user"' in out
    assert "sesame" not in out
    assert '"no\\\\xe9' in out
    assert guarded.counters.failed_logins_total == {"invalid_proof": 1, "unknown_user": 1}
    assert any(
        sample.labels == {"reason": "unknown_user"} and sample.value == 1
        for metric in guarded.counters.collect()
        for sample in metric.samples
        if metric.name == "telesto_failed_logins"
    )


def test_names_in_the_log_are_escaped_and_short() -> None:
    assert escaped("alice") == "alice"
    assert escaped("a\n\x1b[31mé") == "a\\n\\x1b[31m\\xe9"
    assert len(escaped("x" * 5_000)) < 110


async def test_many_failures_are_answered_overloaded_and_the_user_still_logs_in_from_where_it_did(
    guarded: MiddlewareServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoginLimits, "DELAY_S", 0.001)
    wire = await connect()
    await wire.hello()
    assert (await ScramLogin(wire, "alice").whole()).done
    answers = []
    for _ in range(LoginLimits.FREE + 2):
        wire = await connect()
        await wire.hello()
        answers.append(await ScramLogin(wire, "nobody", "wrong").whole())
    assert all(failed(answer) for answer in answers[:-1])
    last = answers[-1]
    assert (last.code, last.error_class) == (ErrorCode.OVERLOADED, ErrorClass.RETRYABLE)
    assert 0 < last.retry_after_ms <= 1_000
    await asyncio.wait_for(wire.closed(), PATIENCE_S)
    wire = await connect()
    await wire.hello()
    assert (await ScramLogin(wire, "alice").whole()).done


async def test_many_guesses_begun_at_once_are_not_all_heard(
    guarded: MiddlewareServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoginLimits, "DELAY_S", 0.001)
    begun = []
    for number in range(LoginLimits.FREE + 10):
        wire = await connect()
        await wire.hello()
        attempt = ScramLogin(wire, "alice", f"guess {number}")
        begun.append((attempt, await attempt.begin()))
    answers = [await attempt.prove(challenge) for attempt, challenge in begun]
    heard = [answer for answer in answers if answer.code == ErrorCode.AUTHENTICATION_FAILED]
    assert len(heard) <= LoginLimits.FREE + 1


async def test_a_failure_is_answered_later_each_time(guarded: MiddlewareServer, connect: Connect) -> None:
    took = []
    for _ in range(3):
        wire = await connect()
        await wire.hello()
        begun = time.monotonic()
        assert failed(await wire.ask(packets.Authenticate("SCRAM-SHA-256", b"")))
        took.append(time.monotonic() - begun)
    assert took[0] >= 0.09
    assert took[1] >= 0.19
    assert took[2] >= 0.39


async def test_logins_and_failures_are_audited(
    start_middleware: StartMiddleware, connect: Connect, database_url: str, tmp_path: Path
) -> None:
    add_user(database_url, "alice")
    file = tmp_path / "audit.jsonl"
    server = await start_middleware(audit_log=file)
    for password in (PASSWORD, "sesame"):
        wire = await connect(server)
        await wire.hello()
        await ScramLogin(wire, "alice", password).whole()
    done, refused = [json.loads(line) for line in file.read_text().splitlines()]
    assert (done["event"], done["outcome"], done["user"]) == ("logged_in", "done", "alice")
    assert (refused["event"], refused["outcome"], refused["reason"]) == (
        "login_failed",
        "refused",
        "invalid_proof",
    )
    assert "sesame" not in file.read_text()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_limits_rise_are_bounded_and_are_forgotten() -> None:
    clock = Clock()
    limits = LoginLimits(clock)
    delays = [limits.failed("1.2.3.4", "alice") for _ in range(12)]
    assert delays == sorted(delays)
    assert delays[0] == LoginLimits.DELAY_S
    assert delays[-1] == LoginLimits.DELAY_MAX_S
    assert 0 < limits.wait_s("1.2.3.4", None) <= LoginLimits.PAUSE_MAX_S
    # Who fails in the name of others keeps nobody out elsewhere, but delays what fails there.
    assert limits.wait_s("5.6.7.8", "alice") == 0.0
    assert limits.failed("5.6.7.8", "alice") == LoginLimits.DELAY_MAX_S
    for _ in range(100):
        limits.failed("1.2.3.4", "alice")
    assert limits.wait_s("1.2.3.4", None) == LoginLimits.PAUSE_MAX_S
    clock.now += LoginLimits.PAUSE_MAX_S
    assert limits.wait_s("1.2.3.4", "alice") == 0.0
    clock.now += LoginLimits.FORGOTTEN_S
    assert limits.failed("1.2.3.4", "alice") == LoginLimits.DELAY_S


def test_nobody_keeps_a_user_out_who_has_logged_in_from_there() -> None:
    limits = LoginLimits(Clock())
    limits.succeeded("9.9.9.9", "alice")
    for _ in range(50):
        limits.failed("1.2.3.4", "alice")
        limits.failed("9.9.9.9", "bob")
    assert limits.wait_s("9.9.9.9", "alice") == 0.0
    for _ in range(50):
        limits.failed("9.9.9.9", "alice")
    assert limits.wait_s("9.9.9.9", "alice") > 0


def test_limits_have_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoginLimits, "MOST", 100)
    limits = LoginLimits(Clock())
    for number in range(1_000):
        limits.failed(f"address {number}", f"user {number}")
        limits.succeeded(f"address {number}", f"user {number}")
    assert len(limits) <= 200


def test_verifiers_are_postgresqls(database_url: str) -> None:
    """PostgreSQL takes one of ours for a password, and we read one of its own."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        ours = make_verifier(PASSWORD)
        connection.execute("DROP ROLE IF EXISTS telesto_verifier_test")
        connection.execute(f"CREATE ROLE telesto_verifier_test PASSWORD '{ours}'".encode())
        try:
            stored = connection.execute(
                "SELECT rolpassword FROM pg_authid WHERE rolname = 'telesto_verifier_test'"
            ).fetchone()
        finally:
            connection.execute("DROP ROLE telesto_verifier_test")
    assert stored == (ours,)
    verifier = read_verifier(ours)
    assert verifier is not None
    assert verifier.iterations == login.ITERATIONS


@pytest.mark.parametrize("text", [None, "", "md5abc", "SCRAM-SHA-256$x:y$z", "SCRAM-SHA-1$4096:aa$bb:cc"])
def test_what_is_no_verifier(text: str | None) -> None:
    assert read_verifier(text) is None


@pytest.mark.parametrize("password", ["", "\u0007", "\u0627x"])
def test_passwords_that_cannot_be(password: str) -> None:
    with pytest.raises(ValueError, match="password"):
        make_verifier(password)


# ---------------------------------------------------------------------------------- TLS, certificates
class Authority:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.file = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(self.file)

    def issue(self, name: str, *names: str, **options: Any) -> tuple[Path, Path]:
        issued = self.ca.issue_cert(*names, **options)
        files = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        files[0].write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(files[1])
        return files

    def context(self, *certificate: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.file)
        if certificate:
            context.load_cert_chain(*certificate)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secured(
    start_middleware: StartMiddleware, authority: Authority, database_url: str
) -> MiddlewareServer:
    """A middleware with TLS and users."""
    add_user(database_url, "alice")
    certificate, key = authority.issue("server", "localhost")
    return await start_middleware(tls_certificate=certificate, tls_key=key)


async def test_a_login_is_bound_to_the_connection(secured: MiddlewareServer, authority: Authority) -> None:
    wire, tls = await open_tls(secured, authority.context())
    assert (await wire.hello()).mechanisms == ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
    assert (await ScramLogin(wire, "alice", mechanism="SCRAM-SHA-256-PLUS", secured=tls).whole()).done
    await wire.close()


async def test_a_binding_to_another_certificate_is_refused(
    secured: MiddlewareServer, authority: Authority, start_middleware: StartMiddleware
) -> None:
    """What a man in the middle passes on: the client is bound to his certificate."""
    certificate, key = authority.issue("other", "localhost")
    middle = await start_middleware(tls_certificate=certificate, tls_key=key)
    seen, tls = await open_tls(middle, authority.context())
    wire, _ = await open_tls(secured, authority.context())
    await wire.hello()
    assert failed(await ScramLogin(wire, "alice", mechanism="SCRAM-SHA-256-PLUS", secured=tls).whole())
    await seen.close()
    await wire.close()


async def test_a_downgrade_is_refused(secured: MiddlewareServer, authority: Authority) -> None:
    """The client could have bound the login, but was shown a list without it (the flag y)."""
    wire, tls = await open_tls(secured, authority.context())
    await wire.hello()
    attempt = ScramLogin(wire, "alice", secured=tls)
    first = attempt.scram.get_client_first()
    assert first.startswith("y,,")
    assert failed(await attempt.say(first))
    assert secured.counters.failed_logins_total == {"server_does_support_channel_binding": 1}
    await wire.close()


async def test_a_new_certificate_is_what_new_logins_are_bound_to(
    secured: MiddlewareServer, authority: Authority
) -> None:
    before, tls_before = await open_tls(secured, authority.context())
    await before.hello()
    authority.issue("server", "localhost")
    assert secured.tls is not None
    secured.tls.read_again()
    after, tls_after = await open_tls(secured, authority.context())
    await after.hello()
    assert tls_before.getpeercert(binary_form=True) != tls_after.getpeercert(binary_form=True)
    for wire, tls in ((before, tls_before), (after, tls_after)):
        assert (await ScramLogin(wire, "alice", mechanism="SCRAM-SHA-256-PLUS", secured=tls).whole()).done
        await wire.close()


@pytest.fixture
async def asking(
    start_middleware: StartMiddleware, authority: Authority, database_url: str
) -> MiddlewareServer:
    """A middleware that asks clients for a certificate."""
    add_user(database_url, "alice", None)
    add_user(database_url, "app.example", None)
    add_user(database_url, "bob", None, enabled=False)
    certificate, key = authority.issue("server", "localhost")
    return await start_middleware(tls_certificate=certificate, tls_key=key, tls_client_ca=authority.file)


@pytest.mark.parametrize(
    ("common_name", "names", "data", "user"),
    [
        ("alice", ["x.example"], b"", "alice"),
        ("alice", ["app.example"], b"alice", "alice"),
        ("alice", ["app.example"], b"app.example", None),
        (None, ["app.example", "alice.example"], b"", "app.example"),
        ("mallory", ["app.example"], b"", None),
        ("mallory", ["app.example"], b"alice", None),
        ("bob", ["app.example"], b"", None),
    ],
)
async def test_a_certificate_logs_in_as_whose_it_is(
    asking: MiddlewareServer,
    authority: Authority,
    common_name: str | None,
    names: list[str],
    data: bytes,
    user: str | None,
) -> None:
    files = authority.issue("client", *names, common_name=common_name)
    wire, _ = await open_tls(asking, authority.context(*files))
    assert (await wire.hello()).mechanisms[0] == "EXTERNAL"
    answer = await wire.ask(packets.Authenticate("EXTERNAL", data))
    if user is None:
        assert failed(answer)
    else:
        assert answer == packets.AuthenticateResponse(b"", True)
        (connection,) = asking.connections.snapshot()
        assert connection.pipeline.user is not None
        assert connection.pipeline.user.name == user
    await wire.close()


@pytest.mark.parametrize(
    ("certificate", "user"),
    [
        ({}, None),
        ({"subject": ((("commonName", "a"),), (("commonName", "b"),))}, None),
        ({"subject": ((("commonName", ""),),)}, None),
        ({"subject": ((("organizationName", "o"),),), "subjectAltName": (("email", "a@b"),)}, "a@b"),
        ({"subjectAltName": (("email", "a@b"), ("DNS", "d"), ("DNS", "e"))}, "d"),
        ({"subjectAltName": (("IP Address", "1.2.3.4"),)}, None),
    ],
)
def test_whose_a_certificate_is(certificate: dict[str, Any], user: str | None) -> None:
    assert user_of(certificate) == user


# -------------------------------------------------------------------------------------------- tokens
SECRET = b"a secret of thirty-two bytes, or more"


def pem(key: Any) -> bytes:
    return bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def claims(**changes: Any) -> dict[str, Any]:
    values = {"sub": "alice", "exp": time.time() + 60, **changes}
    return {name: value for name, value in values.items() if value is not None}


KEYS = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_key_decides_on_the_algorithm(tmp_path: Path, algorithm: str) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(pem(KEYS[algorithm]))
    keys = TokenKeys(file, None, None)
    assert keys.check(jwt.encode(claims(), KEYS[algorithm], algorithm)).user == "alice"
    others = [jwt.encode(claims(), key, other) for other, key in KEYS.items() if other != algorithm]
    others.append(jwt.encode(claims(), None, "none"))
    # The public key taken for the secret of HS256, without the library's own check against that.
    others.append(forged(pem(KEYS[algorithm])))
    others.append(jwt.encode(claims(), SECRET, "HS256"))
    for token in others:
        with pytest.raises(TokenError):
            keys.check(token)


def forged(secret: bytes) -> str:
    import base64
    import hmac
    import json

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(claims())
    signature = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=")
    return (signed + b"." + signature).decode()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": None}, "invalid"),
        ({"exp": 1}, "expired"),
        ({"exp": "soon"}, "invalid"),
        ({"sub": None}, "invalid"),
        ({"sub": 7}, "invalid"),
        ({"nbf": time.time() + 3_600}, "invalid"),
        ({"aud": "another"}, "audience"),
        ({"iss": "another"}, "issuer"),
        ({"iss": None}, "invalid"),
    ],
)
def test_what_a_token_must_say(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    keys = TokenKeys(file, "telesto", "issuer")
    good = {"aud": "telesto", "iss": "issuer"}
    assert keys.check(jwt.encode(claims(**good), SECRET, "HS256")).user == "alice"
    with pytest.raises(TokenError, match=f"^{reason}$"):
        keys.check(jwt.encode(claims(**(good | changes)), SECRET, "HS256"))


def test_a_token_for_somebody_else_is_refused_without_an_audience(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    with pytest.raises(TokenError, match="audience"):
        TokenKeys(file, None, None).check(jwt.encode(claims(aud="another service"), SECRET, "HS256"))


@pytest.mark.parametrize("token", ["", ".", "a.b.c", "é.é.é", "." * 100, "a" * 3_000])
def test_what_is_no_token(tmp_path: Path, token: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    with pytest.raises(TokenError):
        TokenKeys(file, None, None).check(token)


def test_keys_are_read_again_and_several_may_be_valid(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    first, second = KEYS["ES256"], ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(pem(first))
    keys = TokenKeys(file, None, None)
    token = jwt.encode(claims(), second, "ES256")
    with pytest.raises(TokenError):
        keys.check(token)
    file.write_bytes(pem(first) + pem(second))
    assert keys.check(token).user == "alice"
    assert keys.check(jwt.encode(claims(), first, "ES256")).user == "alice"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"short", "32 bytes"),
        (b"-----BEGIN nonsense", "no public key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "something else"),
        (pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)), "another kind"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "another kind"),
    ],
)
def test_key_files_that_cannot_be_used(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    with pytest.raises(TokenKeyError, match=words):
        TokenKeys(file, None, None)


def test_a_private_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(
        KEYS["EdDSA"].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with pytest.raises(TokenKeyError, match="private"):
        TokenKeys(file, None, None)


@pytest.fixture
async def taking_tokens(
    start_middleware: StartMiddleware, database_url: str, tmp_path: Path
) -> MiddlewareServer:
    add_user(database_url, "alice", None)
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    return await start_middleware(jwt_key_file=file)


def bearer(token: str, header: str = "n,,") -> packets.Authenticate:
    return packets.Authenticate("OAUTHBEARER", f"{header}\x01auth=Bearer {token}\x01\x01".encode())


async def test_a_token_logs_in_until_it_expires(taking_tokens: MiddlewareServer, connect: Connect) -> None:
    wire = await connect(taking_tokens)
    assert (await wire.hello()).mechanisms == ["SCRAM-SHA-256", "OAUTHBEARER"]
    token = jwt.encode(claims(exp=time.time() + 1.5), SECRET, "HS256")
    assert (await wire.ask(bearer(token))).done
    assert isinstance(await register(wire), packets.RegisterClientResponse)
    assert isinstance(await asyncio.wait_for(wire.unasked.get(), PATIENCE_S), packets.GoAway)
    await asyncio.wait_for(wire.closed(), PATIENCE_S)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,a=bob,\x01auth=Bearer {token}\x01\x01",
        b"p=x,,\x01auth=Bearer {token}\x01\x01",
        b"n,,\x01auth=Bearer {token}",
        b"n,,\x01auth=Bearer {token}x\x01\x01",
        b"n,,\x01auth=Bearer {expired}\x01\x01",
        b"n,,\x01auth=Bearer {unknown}\x01\x01",
    ],
)
async def test_tokens_that_do_not_log_in(
    taking_tokens: MiddlewareServer, connect: Connect, data: bytes
) -> None:
    tokens = {
        b"{token}": claims(),
        b"{expired}": claims(exp=time.time() - 3_600),
        b"{unknown}": claims(sub="nobody\x00"),
    }
    for name, values in tokens.items():
        data = data.replace(name, jwt.encode(values, SECRET, "HS256").encode())
    wire = await connect(taking_tokens)
    await wire.hello()
    assert failed(await wire.ask(packets.Authenticate("OAUTHBEARER", data)))


# ------------------------------------------------------------------------------------ where it listens
async def test_an_address_that_others_reach_needs_tls_or_insecure(
    start_middleware: StartMiddleware, authority: Authority, connect: Connect
) -> None:
    from telesto.middleware.common.listening import ExposedError

    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(ExposedError, match=r"--tls-certificate.*--insecure"):
            await start_middleware(host=host)
    insecure = await start_middleware(host="0.0.0.0", insecure=True)
    assert (await (await connect(insecure)).hello()).mechanisms == []
    certificate, key = authority.issue("server", "localhost")
    secured = await start_middleware(host="0.0.0.0", tls_certificate=certificate, tls_key=key)
    wire, _ = await open_tls(secured, authority.context())
    assert (await wire.hello()).mechanisms == ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
    await wire.close()


@pytest.mark.parametrize(
    ("host", "exposed"),
    [
        ("127.0.0.1", False),
        ("127.5.5.5", False),
        ("localhost", False),
        ("::1", False),
        ("0.0.0.0", True),
        ("::", True),
        ("", True),
        ("192.0.2.1", True),
    ],
)
def test_which_addresses_others_reach(host: str, exposed: bool) -> None:
    assert listening.is_exposed(ServerSettings.load(host=host)) is exposed


@pytest.mark.parametrize(
    ("peer", "loopback"),
    [
        (("127.0.0.1", 1), True),
        (("::1", 1, 0, 0), True),
        (("::ffff:127.0.0.1", 1, 0, 0), True),
        ("/run/socket", True),
        (("192.0.2.1", 1), False),
        (("2001:db8::1", 1, 0, 0), False),
        (("::2", 1, 0, 0), False),
        (("::192.0.2.1", 1, 0, 0), False),
    ],
)
def test_from_which_addresses_a_token_needs_no_tls(peer: object, loopback: bool) -> None:
    assert is_loopback(peer) is loopback


@pytest.mark.parametrize("processes", [1, 2])
def test_a_start_that_is_refused_starts_no_processes(
    processes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("error", json=True)
    with pytest.raises(SystemExit):
        serve(ServerSettings.load(host="0.0.0.0", processes=processes))
    assert "--insecure" in "".join(capsys.readouterr())


async def test_every_start_warns_of_what_is_open(
    start_middleware: StartMiddleware, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("warning", json=True)
    await start_middleware()
    assert "insecure" not in "".join(capsys.readouterr())
    await start_middleware(host="0.0.0.0", insecure=True, admin_host="0.0.0.0", admin_port=0)
    out = "".join(capsys.readouterr())
    assert '"event": "insecure"' in out
    assert '"event": "admin_port_open"' in out


async def test_a_login_waits_for_the_database_and_fails_without_it(
    guarded: MiddlewareServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    from telesto.middleware.common.failures import UnavailableError

    async def away(_name: str) -> None:
        raise UnavailableError("away")

    monkeypatch.setattr(guarded.users, "find", away)
    wire = await connect()
    await wire.hello()
    answer = await ScramLogin(wire, "alice").begin()
    assert answer.code == ErrorCode.DATABASE_UNAVAILABLE
    await until(lambda: len(guarded.connections) == 0)
    assert guarded.counters.failed_logins_total == {}


@pytest.mark.parametrize(
    "first",
    [
        "n,,n=" + "\ufdfa" * 200 + ",r=abcdefghijkl",  # 18 characters each once it is normalized
        "n,,n=alice,r=" + "x" * 2_000,
        "n,,n=" + "a" * 2_000 + ",r=abcdefghijkl",
    ],
    ids=["characters", "nonce", "name"],
)
async def test_what_takes_long_to_read_is_not_read(
    guarded: MiddlewareServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was given to the library")

    monkeypatch.setattr(scramp.ScramMechanism, "make_server", read)
    wire = await connect(guarded)
    await wire.hello()
    answer = await wire.ask(packets.Authenticate("SCRAM-SHA-256", first.encode()))
    assert answer.code == ErrorCode.AUTHENTICATION_FAILED
