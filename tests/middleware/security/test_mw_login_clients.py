"""Logins by both Python clients against running middlewares, and servers that are not what they claim."""

import asyncio
import gc
import time
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import psycopg
import pytest
import scramp
import trustme

from conftest import StartMiddleware
from logins import PASSWORD, add_user, required
from telesto.client import AsyncTelestoClient, TelestoClient
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import AuthenticationFailedError, TelestoError
from telesto.protocol.framing import FrameDecoder
from wire import PATIENCE_S, until

SECRET = b"a secret of thirty-two bytes, or more"
QUOTED = PASSWORD.replace(" ", "%20").replace(",", "%2C")

kinds = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "PASSWORD", "PASSWORD_FILE", "TOKEN_FILE"):
        monkeypatch.delenv(f"TELESTO_{name}", raising=False)


async def used(kind: str, url: str) -> None:
    """Connects with a client of this kind."""

    def use() -> None:
        with TelestoClient(url) as client:
            assert "horse" not in repr(client)
            client.connect()

    if kind == "blocking":
        await asyncio.to_thread(use)
    else:
        async with AsyncTelestoClient(url) as client:
            assert "horse" not in repr(client)
            await client.connect()


async def refusal(kind: str, url: str) -> TelestoError:
    """Returns why a client cannot connect, and that it says so soon and without a password."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(TelestoError) as raised:
            await used(kind, url)
    told = "".join(traceback.format_exception(raised.value))
    assert "horse" not in told
    assert SECRET.decode() not in told
    return raised.value


def url_of(server: MiddlewareServer, login: str = "", query: str = "", scheme: str = "telesto") -> str:
    host, port = server.address
    return f"{scheme}://{login + '@' if login else ''}{host}:{port}/{'?' + query if query else ''}"


@pytest.fixture
async def guarded(server: MiddlewareServer, database_url: str) -> MiddlewareServer:
    add_user(database_url, "alice", administrator=True)
    await required(server)
    return server


@kinds
async def test_by_the_url(guarded: MiddlewareServer, kind: str) -> None:
    await used(kind, url_of(guarded, f"alice:{QUOTED}"))


@kinds
async def test_by_the_environment(
    guarded: MiddlewareServer, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TELESTO_PASSWORD", PASSWORD)
    await used(kind, url_of(guarded, "alice"))
    monkeypatch.setenv("TELESTO_USER", "alice")
    await used(kind, url_of(guarded))
    monkeypatch.delenv("TELESTO_PASSWORD")
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    monkeypatch.setenv("TELESTO_PASSWORD_FILE", str(file))
    await used(kind, url_of(guarded))
    file.write_text("another")
    assert isinstance(await refusal(kind, url_of(guarded)), AuthenticationFailedError)
    file.unlink()
    assert "cannot read" in str(await refusal(kind, url_of(guarded)))


@kinds
@pytest.mark.parametrize("login", ["alice:wrong%20horse", f"nobody:{QUOTED}"])
async def test_a_failure_is_told_at_once(guarded: MiddlewareServer, kind: str, login: str) -> None:
    begun = time.monotonic()
    error = await refusal(kind, url_of(guarded, login))
    assert isinstance(error, AuthenticationFailedError)
    assert f"refuses the login of '{login.partition(':')[0]}'" in str(error)
    assert time.monotonic() - begun < 3.0
    assert sum(guarded.counters.failed_logins_total.values()) == 1


@kinds
async def test_without_a_user_the_error_says_how_to_give_one(guarded: MiddlewareServer, kind: str) -> None:
    error = await refusal(kind, url_of(guarded))
    for word in ("telesto://USER:PASSWORD@host", "TELESTO_PASSWORD_FILE", "telesto user add"):
        assert word in str(error)


@kinds
async def test_a_service_that_asks_for_no_login_is_not_trusted(server: MiddlewareServer, kind: str) -> None:
    assert "asks for no login" in str(await refusal(kind, url_of(server, f"alice:{QUOTED}")))


@kinds
async def test_a_password_is_not_sent_where_no_scram_is_offered(
    guarded: MiddlewareServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = guarded._services.logins  # noqa: SLF001
    for offered in (["PLAIN"], ["OAUTHBEARER", "SCRAM-SHA-1"]):
        monkeypatch.setattr(logins, "mechanisms", lambda _channel, offered=offered: offered)
        assert "SCRAM-SHA-256 only" in str(await refusal(kind, url_of(guarded, f"alice:{QUOTED}")))


async def test_a_client_whose_user_is_disabled_ends_and_connects_again_once_it_may(
    guarded: MiddlewareServer, database_url: str
) -> None:
    add_user(database_url, "bob", administrator=True)
    async with AsyncTelestoClient(url_of(guarded, f"bob:{QUOTED}"), name="bob") as client:
        queue = await client.declare_queue("queue")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("UPDATE telesto.users SET enabled = false WHERE name = 'bob'")
            with pytest.raises(TelestoError, match="refuses the login of 'bob'"):
                await asyncio.wait_for(queue.get(timeout=20.0), PATIENCE_S)
            connection.execute("UPDATE telesto.users SET enabled = true WHERE name = 'bob'")
        await client.connect()
        await queue.put(b"again")
        assert (await queue.get(timeout=5.0)).body == b"again"


async def test_the_first_user_ends_a_client_without_one(server: MiddlewareServer, database_url: str) -> None:
    async with AsyncTelestoClient(url_of(server)) as client:
        queue = await client.declare_queue("queue")
        waiting = asyncio.create_task(queue.get(timeout=20.0))
        await until(lambda: server.room.parked == 1)
        add_user(database_url, "alice")
        with pytest.raises(TelestoError, match="asks for a login"):
            await asyncio.wait_for(waiting, PATIENCE_S)


# ------------------------------------------------------------------------------------ TLS and tokens
@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    return ca


def issue(authority: trustme.CA, directory: Path, name: str, *names: str, **options: Any) -> dict[str, Path]:
    issued = authority.issue_cert(*names, **options)
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return {"tls_certificate": certificate, "tls_key": key}


@kinds
async def test_over_tls_the_login_is_bound(
    start_middleware: StartMiddleware,
    authority: trustme.CA,
    tmp_path: Path,
    database_url: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And where a man in the middle has left that out of the list, the middleware refuses the login."""
    add_user(database_url, "alice")
    server = await start_middleware(**issue(authority, tmp_path, "server", "127.0.0.1"))
    url = url_of(server, f"alice:{QUOTED}", f"tls_ca={tmp_path / 'ca.pem'}", "telestos")
    seen: list[str] = []
    from telesto.middleware.security.login import Login

    step = Login.step

    async def note(self: Login, mechanism: str, data: bytes) -> Any:
        seen.append(mechanism)
        return await step(self, mechanism, data)

    monkeypatch.setattr(Login, "step", note)
    await used(kind, url)
    assert seen == ["SCRAM-SHA-256-PLUS"] * 2
    monkeypatch.setattr(
        server._services.logins,  # noqa: SLF001
        "mechanisms",
        lambda _channel: ["SCRAM-SHA-256"],
    )
    assert isinstance(await refusal(kind, url), AuthenticationFailedError)
    assert server.counters.failed_logins_total == {"server_does_support_channel_binding": 1}


@kinds
async def test_by_a_certificate(
    start_middleware: StartMiddleware, authority: trustme.CA, tmp_path: Path, database_url: str, kind: str
) -> None:
    add_user(database_url, "alice", None)
    server = await start_middleware(
        tls_client_ca=tmp_path / "ca.pem", **issue(authority, tmp_path, "server", "127.0.0.1")
    )

    def url(login: str, name: str) -> str:
        files = issue(authority, tmp_path, name, "x.example", common_name=name)
        query = "&".join(f"{key}={file}" for key, file in files.items())
        return url_of(server, login, f"tls_ca={tmp_path / 'ca.pem'}&{query}", "telestos")

    await used(kind, url("", "alice"))
    await used(kind, url("alice", "alice"))
    assert isinstance(await refusal(kind, url("", "mallory")), AuthenticationFailedError)
    assert isinstance(await refusal(kind, url("alice", "mallory")), AuthenticationFailedError)


@kinds
async def test_by_a_token_that_is_read_again_at_each_connection(
    start_middleware: StartMiddleware, database_url: str, tmp_path: Path, kind: str
) -> None:
    add_user(database_url, "alice", None)
    key, token = tmp_path / "key", tmp_path / "token"
    key.write_bytes(SECRET)
    server = await start_middleware(jwt_key_file=key)
    url = url_of(server, query=f"token_file={token}")
    assert "cannot read" in str(await refusal(kind, url))

    def write(lasts_s: float) -> None:
        token.write_text(jwt.encode({"sub": "alice", "exp": time.time() + lasts_s}, SECRET, "HS256") + "\n")

    write(-60)
    assert isinstance(await refusal(kind, url), AuthenticationFailedError)
    write(60)
    await used(kind, url)
    token.write_text("x" * 4_000)
    assert "holds no token" in str(await refusal(kind, url))


async def test_a_client_stays_connected_beyond_the_end_of_its_token(
    start_middleware: StartMiddleware, database_url: str, tmp_path: Path
) -> None:
    add_user(database_url, "alice", None, administrator=True)
    key, token = tmp_path / "key", tmp_path / "token"
    key.write_bytes(SECRET)
    server = await start_middleware(jwt_key_file=key)

    def write(lasts_s: float) -> None:
        token.write_text(jwt.encode({"sub": "alice", "exp": time.time() + lasts_s}, SECRET, "HS256"))

    write(1.2)
    async with AsyncTelestoClient(url_of(server, query=f"token_file={token}"), name="alice") as client:
        queue = await client.declare_queue("queue")
        write(60)
        accepted = server.counters.connections_total
        while server.counters.connections_total == accepted:
            await queue.put(b"x")
            await asyncio.sleep(0.02)
        await queue.put(b"x")


async def test_a_token_is_sent_over_tls_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from telesto.client.connection import login
    from telesto.client.url import Address, Credentials

    token = tmp_path / "token"
    token.write_text("abc")
    credentials = Credentials(token_file=str(token))
    with pytest.raises(AuthenticationFailedError, match="over TLS only"):
        login.begin(["OAUTHBEARER"], credentials, Address("mq.example", 7001), None)
    for host in ("localhost", "127.0.0.1", "::1"):
        exchange = login.begin(["OAUTHBEARER"], credentials, Address(host, 7001), None)
        assert exchange is not None
        assert exchange.first() == b"n,,\x01auth=Bearer abc\x01\x01"


# ------------------------------------------------------------------------------------------- impostors
Answer = Callable[[packets.Authenticate], packets.Packet]


class Impostor:
    """A server that offers SCRAM-SHA-256 and answers steps of a login as it is told."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        self._answer = answer
        self.received = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder, answer = FrameDecoder(1 << 20), self._answer()
        while data := await reader.read(1 << 16):
            self.received += data
            for method_id, packet_id, payload in decoder.feed(data):
                if method_id == packets.Hello.METHOD_ID:
                    response: packets.Packet = packets.HelloResponse(
                        1, 0, 1, "x", 1 << 20, 0, 64, ["SCRAM-SHA-256"], [], []
                    )
                elif method_id == packets.Authenticate.METHOD_ID:
                    response = answer(packets.Authenticate.decode(payload))
                else:
                    response = packets.RegisterClientResponse(1, 1, "x")
                writer.write(response.encode(packet_id))
        writer.close()


def _done_at_once() -> Answer:
    return lambda _packet: packets.AuthenticateResponse(b"", True)


def _without_signature() -> Answer:
    scram = scramp.ScramMechanism("SCRAM-SHA-256")
    steps: list[bytes] = []

    def answer(packet: packets.Authenticate) -> packets.Packet:
        steps.append(packet.data)
        if len(steps) > 1:
            return packets.AuthenticateResponse(b"", True)
        server = scram.make_server(lambda _: scram.make_auth_info("guessed"))
        server.set_client_first(packet.data.decode())
        return packets.AuthenticateResponse(server.get_server_first().encode(), False)

    return answer


def _wrong_signature() -> Answer:
    inner = _without_signature()

    def answer(packet: packets.Authenticate) -> packets.Packet:
        response = inner(packet)
        assert isinstance(response, packets.AuthenticateResponse)
        return packets.AuthenticateResponse(b"v=" + b"A" * 43 + b"=", True) if response.done else response

    return answer


def _another_nonce() -> Answer:
    return lambda _packet: packets.AuthenticateResponse(b"r=another,s=AAAAAAAAAAAAAAAAAAAAAA==,i=4096", False)


def _weak_hash() -> Answer:
    def answer(packet: packets.Authenticate) -> packets.Packet:
        nonce = packet.data.decode().rpartition("r=")[2]
        return packets.AuthenticateResponse(f"r={nonce}x,s=AAAAAAAAAAAAAAAAAAAAAA==,i=1".encode(), False)

    return answer


def _endless_hash() -> Answer:
    def answer(packet: packets.Authenticate) -> packets.Packet:
        nonce = packet.data.decode().rpartition("r=")[2]
        return packets.AuthenticateResponse(
            f"r={nonce}x,s=AAAAAAAAAAAAAAAAAAAAAA==,i=9000000".encode(), False
        )

    return answer


@pytest.fixture
async def impostor(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Impostor, int]]:
    made = Impostor(request.param)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    yield made, server.sockets[0].getsockname()[1]
    server.close()
    gc.collect()


@kinds
@pytest.mark.parametrize(
    "impostor",
    [_done_at_once, _without_signature, _wrong_signature, _another_nonce, _weak_hash, _endless_hash],
    indirect=True,
)
async def test_a_server_that_does_not_know_the_password_is_refused(
    impostor: tuple[Impostor, int], kind: str
) -> None:
    made, port = impostor
    begun = time.monotonic()
    error = await refusal(kind, f"telesto://alice:{QUOTED}@127.0.0.1:{port}")
    assert isinstance(error, AuthenticationFailedError)
    assert time.monotonic() - begun < 3.0
    assert PASSWORD.encode() not in made.received
    assert packets.RegisterClient.METHOD_ID.to_bytes(2, "big") + b"\0\0\0\2" not in made.received
