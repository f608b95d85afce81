"""TLS on both ports: who may connect, what is refused and why, new certificates, and limits of handshakes."""

import asyncio
import errno
import os
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from conftest import StartMiddleware
from telesto.client import AsyncTelestoClient, NewMessage, TelestoClient
from telesto.client.errors import TlsError
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.common.tls import ServerTls, TlsFilesError, TlsListener
from telesto.middleware.metrics.http import CONNECTIONS_MAX
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import TelestoError
from wire import hello, read, until

PATIENCE_S = 30.0


class Files:
    """An authority, and files of certificates that it issues."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.authority = trustme.CA()
        self.ca = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *names: str, **options: Any) -> tuple[Path, Path]:
        """Writes a certificate for these names; returns its file and that of its key."""
        issued = self.authority.issue_cert(*names, **options)
        certificate, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return certificate, key

    def settings(self, *names: str, **options: Any) -> dict[str, Any]:
        """Those of a middleware whose certificate is for these names."""
        certificate, key = self.issue("server", *(names or ("localhost", "127.0.0.1")), **options)
        return {"tls_certificate": certificate, "tls_key": key}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "tls")


def url_of(server: MiddlewareServer, files: Files | None, *parameters: str, host: str = "127.0.0.1") -> str:
    query = "&".join([*([f"tls_ca={files.ca}"] if files else []), *parameters])
    return f"telestos://{host}:{server.address[1]}/" + (f"?{query}" if query else "")


async def used(kind: str, url: str) -> None:
    """Uses a client of this kind once."""

    def use() -> None:
        with TelestoClient(url) as client:
            client.connect()

    if kind == "blocking":
        await asyncio.to_thread(use)
    else:
        async with AsyncTelestoClient(url) as client:
            await client.connect()


async def refusal(kind: str, url: str) -> TelestoError:
    """Returns why a client cannot connect."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(TelestoError) as raised:
            await used(kind, url)
    return raised.value


kinds = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


# ------------------------------------------------------------------------------- what goes over it
async def test_small_and_large_messages_in_both_directions(
    start_middleware: StartMiddleware, files: Files
) -> None:
    """Of the asyncio client. The large ones do not fit into a socket's buffers."""
    server = await start_middleware(max_body_bytes=3 << 20, **files.settings())
    bodies = [b"%d" % number * (1 + 20_000 * (number % 40)) for number in range(100)]
    async with AsyncTelestoClient(url_of(server, files)) as client:
        queue = await client.declare_queue("queue")
        results = await queue.put_many([NewMessage(body) for body in bodies])
        assert all(result.error is None for result in results)
        await queue.put(b"x" * (3 << 20))
        got = []
        async with queue.consume(credit=10) as consumer:
            for _ in range(101):
                leased = await consumer.get(PATIENCE_S)
                assert leased is not None
                async with leased:
                    got.append(leased.body)
        assert got == [*bodies, b"x" * (3 << 20)]


async def test_threads_of_one_client(start_middleware: StartMiddleware, files: Files) -> None:
    """Of the blocking client: threads that put and get messages of all sizes, by one connection."""
    server = await start_middleware(max_body_bytes=3 << 20, **files.settings())

    def work(client: TelestoClient, number: int) -> None:
        queue = client.declare_queue(f"queue {number}")
        for size in (0, 1, 16_384, 65_536, 1_000_000, 3 << 20):
            queue.put(b"%d" % number * (size // len(b"%d" % number)))
            message = queue.get(timeout=PATIENCE_S)
            assert message is not None
            assert message.body == b"%d" % number * (size // len(b"%d" % number))

    def run() -> None:
        from concurrent.futures import ThreadPoolExecutor

        with TelestoClient(url_of(server, files)) as client, ThreadPoolExecutor(8) as threads:
            for future in [threads.submit(work, client, number) for number in range(8)]:
                future.result()

    await asyncio.to_thread(run)


async def test_a_client_that_is_told_why_it_is_refused_has_read_it(
    start_middleware: StartMiddleware, files: Files
) -> None:
    """The last answer comes before the end of the connection, also with data left unread."""
    server = await start_middleware(**files.settings())
    context = ssl.create_default_context(cafile=files.ca)
    reader, writer = await asyncio.open_connection(*server.address, ssl=context, server_hostname="localhost")
    writer.write(b"\xff" * 100_000)
    async with asyncio.timeout(PATIENCE_S):
        answer = await reader.read()
    assert b"frame" in answer
    writer.close()


async def test_both_ports_and_the_days_that_are_left(start_middleware: StartMiddleware, files: Files) -> None:
    expires = datetime.now(UTC) + timedelta(days=7)
    server = await start_middleware(admin_port=0, **files.settings(not_after=expires))
    assert server.admin_address is not None
    context = ssl.create_default_context(cafile=files.ca)
    reader, writer = await asyncio.open_connection(
        *server.admin_address, ssl=context, server_hostname="127.0.0.1"
    )
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    left = next(line for line in answer.splitlines() if line.startswith("telesto_tls_certificate_left"))
    assert 6.9 < float(left.split()[1]) / 86_400 < 7.0


async def test_the_middleware_accepts_no_version_below_1_2(
    start_middleware: StartMiddleware, files: Files
) -> None:
    server = await start_middleware(**files.settings())
    assert server.tls is not None
    for context in (server.tls.for_clients, server.tls.for_admin):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    context = ssl.create_default_context(cafile=files.ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    _, writer = await asyncio.open_connection(*server.address, ssl=context, server_hostname="localhost")
    assert writer.get_extra_info("ssl_object").version() == "TLSv1.2"
    writer.close()


# ------------------------------------------------------------------------------- what is refused
@kinds
async def test_whom_a_client_does_not_trust(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path, kind: str
) -> None:
    server = await start_middleware(**files.settings("localhost"))
    await used(kind, url_of(server, files, host="localhost"))
    others = Files(tmp_path / "others")
    for url, why in (
        (url_of(server, None, host="localhost"), "not trusted here"),
        (url_of(server, others, host="localhost"), "not trusted here"),
        (url_of(server, files), "for another address"),
    ):
        error = await refusal(kind, url)
        assert isinstance(error, TlsError)
        assert why in error.details
    await used(kind, url_of(server, None, "tls_verify=no"))


@kinds
async def test_a_certificate_that_has_expired(
    start_middleware: StartMiddleware, files: Files, kind: str
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    server = await start_middleware(
        **files.settings(not_before=yesterday - timedelta(days=1), not_after=yesterday)
    )
    assert server.tls is not None
    assert server.tls.left_s() < 0
    assert "has expired" in (await refusal(kind, url_of(server, files))).details


@kinds
async def test_the_other_kind_of_port(start_middleware: StartMiddleware, files: Files, kind: str) -> None:
    with_tls, without = await start_middleware(**files.settings()), await start_middleware()
    error = await refusal(kind, f"telesto://127.0.0.1:{with_tls.address[1]}")
    assert "telestos://" in error.details
    error = await refusal(kind, url_of(without, files))
    assert isinstance(error, TlsError)
    assert "does not speak TLS" in error.details


@kinds
async def test_clients_without_a_certificate_where_one_is_asked_for(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path, kind: str
) -> None:
    others = Files(tmp_path / "others")
    server = await start_middleware(tls_client_ca=files.ca, admin_port=0, **files.settings())
    assert "tls_certificate" in (await refusal(kind, url_of(server, files))).details
    certificate, key = others.issue("client", "shop")
    error = await refusal(kind, url_of(server, files, f"tls_certificate={certificate}", f"tls_key={key}"))
    assert "a certificate that they trust" in error.details
    certificate, key = files.issue("client", "shop")
    await used(kind, url_of(server, files, f"tls_certificate={certificate}", f"tls_key={key}"))
    assert server.admin_address is not None
    context = ssl.create_default_context(cafile=files.ca)
    _, writer = await asyncio.open_connection(*server.admin_address, ssl=context, server_hostname="127.0.0.1")
    writer.close()


@kinds
async def test_files_of_a_client_that_cannot_be_used(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path, kind: str
) -> None:
    server = await start_middleware(**files.settings())
    text = tmp_path / "text"
    text.write_text("no certificate")
    certificate, _ = files.issue("one", "one")
    _, key = files.issue("two", "two")
    here = f"telestos://127.0.0.1:{server.address[1]}/"
    for parameters, why in (
        (f"tls_ca={tmp_path}/none", "No such file"),
        (f"tls_ca={text}", "not in PEM form"),
        (f"tls_ca={files.ca}&tls_certificate={text}", "not in PEM form"),
        (
            f"tls_ca={files.ca}&tls_certificate={certificate}",
            "one.pem holds no private key in PEM form; name",
        ),
        (f"tls_ca={files.ca}&tls_certificate={certificate}&tls_key={key}", "of another certificate"),
        (f"tls_ca={files.ca}&tls_certificate={certificate}&tls_key={encrypted(files)}", "encrypted"),
        (f"tls_ca={files.ca}&tls_certificate={weak(files)}", "too weak"),
    ):
        error = await refusal(kind, f"{here}?{parameters}")
        assert isinstance(error, TlsError)
        assert why in error.details


def encrypted(files: Files) -> Path:
    """Returns a file with a key that needs a password."""
    issued = files.authority.issue_cert("encrypted")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    path = files.directory / "encrypted.key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hunter2"),
        )
    )
    return path


def weak(files: Files) -> Path:
    """Returns a file with a certificate and its key, which OpenSSL finds too short."""
    key = rsa.generate_private_key(65_537, 1_024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weak")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    path = files.directory / "weak.pem"
    path.write_bytes(
        certificate
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


def test_files_of_a_middleware_that_cannot_be_used(files: Files, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no certificate")
    certificate, key = files.issue("one", "one")
    _, other_key = files.issue("two", "two")
    for used_files, why in (
        ((tmp_path / "none", None, None), "No such file"),
        ((certificate, tmp_path / "none", None), "No such file"),
        ((text, key, None), "holds no certificate"),
        ((certificate, text, None), "holds no private key"),
        ((certificate, None, None), "holds no private key"),
        ((certificate, other_key, None), "is not that of the certificate"),
        ((certificate, encrypted(files), None), "is encrypted"),
        ((weak(files), None, None), "too weak"),
        ((certificate, key, text), "holds no certificate"),
    ):
        with pytest.raises(TlsFilesError, match=why):
            ServerTls(*used_files)
    both = tmp_path / "both"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    ServerTls(both, None, None)


def test_a_key_or_an_authority_alone_is_a_mistake() -> None:
    for name in ("tls_key", "tls_client_ca"):
        with pytest.raises(ValueError, match=f"{name} needs tls_certificate"):
            ServerSettings.load(**{name: "file"})


# ------------------------------------------------------------------------------- new certificates
async def test_new_certificates_are_for_new_connections_and_cut_none(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path
) -> None:
    server = await start_middleware(**files.settings())
    assert server.tls is not None
    async with AsyncTelestoClient(url_of(server, files)) as client:
        await client.connect()
        others = Files(tmp_path / "others")
        certificate, key = others.issue("new", "localhost", "127.0.0.1")
        files.directory.joinpath("server.pem").write_bytes(certificate.read_bytes())
        files.directory.joinpath("server.key").write_text("not written whole yet")
        server.tls.read_again()
        await used("asyncio", url_of(server, files))  # the former one is still there
        files.directory.joinpath("server.key").write_bytes(key.read_bytes())
        server.tls.read_again()
        await used("asyncio", url_of(server, others))
        assert isinstance(await refusal("asyncio", url_of(server, files)), TlsError)
        assert (await client.ping()) is not None
        assert client.connected


async def test_new_authorities_of_clients(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path
) -> None:
    others = Files(tmp_path / "others")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(files.ca.read_bytes())
    server = await start_middleware(tls_client_ca=trusted, **files.settings())
    assert server.tls is not None

    def shown(by: Files) -> str:
        certificate, key = by.issue("client", "shop")
        return url_of(server, files, f"tls_certificate={certificate}", f"tls_key={key}")

    await used("asyncio", shown(files))
    trusted.write_bytes(others.ca.read_bytes())
    server.tls.read_again()
    await used("asyncio", shown(others))
    assert "certificate" in (await refusal("asyncio", shown(files))).details


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_sessions_do_not_outlive_the_authorities_that_were_trusted(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """A resumed session shows no certificate again."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(files.ca.read_bytes())
    server = await start_middleware(tls_client_ca=trusted, **files.settings())
    assert server.tls is not None
    context = ssl.create_default_context(cafile=files.ca)
    context.maximum_version = version
    context.load_cert_chain(*files.issue("client", "shop"))

    def told(session: ssl.SSLSession | None = None) -> tuple[bytes, ssl.SSLSession | None]:
        with (
            suppress(OSError),
            socket.create_connection(server.address, PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as sock,
        ):
            sock.sendall(b"\xff" * 4)
            return sock.recv(1024), sock.session
        return b"", None

    answer, session = await asyncio.to_thread(told)
    assert b"frame" in answer
    assert session is not None
    trusted.write_bytes(Files(tmp_path / "others").ca.read_bytes())
    server.tls.read_again()
    assert (await asyncio.to_thread(told, session))[0] == b""


@kinds
async def test_a_client_reads_its_files_again_when_they_change(
    start_middleware: StartMiddleware, files: Files, tmp_path: Path, kind: str
) -> None:
    """It connects again by itself after the authority has changed."""
    server = await start_middleware(**files.settings())
    ca = tmp_path / "trusted.pem"
    ca.write_bytes(files.ca.read_bytes())
    port = server.address[1]
    others = Files(tmp_path / "others")
    certificate, key = others.issue("new", "127.0.0.1")

    async def use(client: Any) -> None:
        if kind == "blocking":
            await asyncio.to_thread(client.declare_queue, "queue")
        else:
            await client.declare_queue("queue")

    url = f"telestos://127.0.0.1:{port}/?tls_ca={ca}"
    client = TelestoClient(url) if kind == "blocking" else AsyncTelestoClient(url)
    await use(client)
    server.request_stop()
    await server.wait_closed()
    ca.write_bytes(others.ca.read_bytes())
    await start_middleware(port=port, tls_certificate=certificate, tls_key=key)
    await use(client)
    closed = client.close()
    if closed is not None:
        await closed


# ------------------------------------------------------------------------------- limits
async def test_a_peer_that_leaves_one_large_answer_unread_is_closed(
    start_middleware: StartMiddleware, files: Files
) -> None:
    """What TLS passes on at once counts as unsent, too."""
    server = await start_middleware(
        write_stalled_s=0.3, max_frame=1 << 24, max_body_bytes=15 << 20, **files.settings()
    )
    async with AsyncTelestoClient(url_of(server, files)) as client:
        queue = await client.declare_queue("queue")
        await queue.put(bytes(15 << 20))
    await until(lambda: not len(server.connections))
    context = ssl.create_default_context(cafile=files.ca)

    def connect() -> ssl.SSLSocket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sock.connect(server.address)
        return context.wrap_socket(sock, server_hostname="localhost")

    with await asyncio.to_thread(connect) as peer:
        register = packets.RegisterClient("peer", packets.ClientMode.FULL, bytes(16))
        peer.sendall(hello().encode(1) + register.encode(2))
        await until(lambda: server.connections.snapshot()[0].pipeline.client.client_id)
        peer.sendall(read(1, queue.queue_id).encode(3))
        await until(lambda: server.budget.unsent > 1 << 20)
        await until(lambda: server.counters.aborted_total == {"peer_stalled": 1})


async def silent(server: MiddlewareServer, count: int) -> list[asyncio.StreamWriter]:
    """Opens connections that never begin a handshake."""
    return [(await asyncio.open_connection(*server.address))[1] for _ in range(count)]


async def test_silent_peers_keep_nobody_out(start_middleware: StartMiddleware, files: Files) -> None:
    server = await start_middleware(max_handshakes=4, **files.settings())
    writers = await silent(server, 40)
    async with asyncio.timeout(PATIENCE_S):
        await used("asyncio", url_of(server, files))
    assert len(server.connections) <= 1
    for writer in writers:
        writer.close()


async def test_many_peers_of_one_address_keep_no_other_address_out(
    start_middleware: StartMiddleware, files: Files
) -> None:
    """They connect while the handshake of another one is under way."""
    server = await start_middleware(max_handshakes=4, **files.settings())
    context = ssl.create_default_context(cafile=files.ca)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    shaken = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    reader, writer = await asyncio.open_connection(*server.address)
    writers = []
    async with asyncio.timeout(PATIENCE_S):
        while shaken.version() is None or outgoing.pending:
            for _ in range(40):
                writers.append(
                    (await asyncio.open_connection(*server.address, local_addr=("127.0.0.2", 0)))[1]
                )
            with suppress(ssl.SSLWantReadError):
                shaken.do_handshake()
            if outgoing.pending:
                writer.write(outgoing.read())
            else:
                incoming.write(await reader.read(1 << 16))
        await until(lambda: len(server.connections) == 1)
    for each in (writer, *writers):
        each.close()


async def test_an_address_with_few_handshakes_keeps_them(
    start_middleware: StartMiddleware, files: Files
) -> None:
    """Two of its own do not end each other while another address has more."""
    server = await start_middleware(max_handshakes=4, **files.settings())
    others = [await asyncio.open_connection(*server.address, local_addr=("127.0.0.2", 0)) for _ in range(8)]
    mine = [await asyncio.open_connection(*server.address) for _ in range(2)]
    async with asyncio.timeout(PATIENCE_S):
        for reader, _ in others[:6]:  # the last two of theirs are left beside those two
            assert await reader.read() == b""
    assert not any(reader.at_eof() for reader, _ in [*others[6:], *mine])
    for _, writer in [*others, *mine]:
        writer.close()


async def test_a_handshake_has_its_time(start_middleware: StartMiddleware, files: Files) -> None:
    server = await start_middleware(handshake_limit_s=0.2, **files.settings())
    reader, writer = await asyncio.open_connection(*server.address)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    writer.close()
    assert server.counters.aborted_total == {"tls_handshake": 1}


async def test_peers_of_the_admin_port_that_do_not_close_are_few(
    start_middleware: StartMiddleware, files: Files
) -> None:
    """One more than may be open is closed without waiting for it."""
    server = await start_middleware(admin_port=0, linger_s=PATIENCE_S, **files.settings())
    assert server.admin_address is not None
    address = server.admin_address
    context = ssl.create_default_context(cafile=files.ca)
    before = len(os.listdir("/dev/fd"))
    peers: list[socket.socket] = []

    def connect() -> None:
        peers.append(socket.create_connection(address, PATIENCE_S))
        with suppress(OSError):
            peers[-1] = context.wrap_socket(peers[-1], server_hostname="localhost")

    for _ in range(3 * CONNECTIONS_MAX):
        await asyncio.to_thread(connect)
    await until(lambda: len(os.listdir("/dev/fd")) <= before + 5 * CONNECTIONS_MAX, 4.0)
    for peer in peers:
        peer.close()


async def test_one_that_stops_ends_the_handshakes(start_middleware: StartMiddleware, files: Files) -> None:
    server = await start_middleware(**files.settings())
    reader, writer = await asyncio.open_connection(*server.address)
    await asyncio.sleep(0)
    server.request_stop()
    async with asyncio.timeout(PATIENCE_S):
        await server.wait_closed()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


class UsedUp(socket.socket):
    """A listening socket of a process that has no descriptor left for a while."""

    refusals = 3

    def accept(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_without_a_descriptor_it_accepts_later(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telesto.middleware.common.tls._RETRY_S", 0.01)
    tls = ServerTls(*files.issue("server", "localhost"), None)
    with UsedUp() as sock:
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        listener = TlsListener(
            sock,
            lambda: tls.for_clients,
            asyncio.Protocol,
            backlog=8,
            most=4,
            limit_s=PATIENCE_S,
            linger_s=1.0,
            address_of=str,
            failed=lambda *_: None,
        )
        await listener.start_serving()
        context = ssl.create_default_context(cafile=files.ca)
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection(
                *sock.getsockname(), ssl=context, server_hostname="localhost"
            )
        assert sock.refusals == 0
        writer.close()
        listener.close()
        await listener.wait_closed()
