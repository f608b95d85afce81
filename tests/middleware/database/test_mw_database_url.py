"""A database URL is written for libpq; the middleware's driver has to do what it says, or it is refused."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import quote, urlsplit

import pytest
from psycopg.pq import Conninfo
from pydantic import ValidationError

from telesto.middleware.common.database_url import Server, read_database_url
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.dsn import Connection
from telesto.middleware.database.primary import Epoch, Primary
from wire import PATIENCE_S

#: For each parameter of libpq a value that is fit for any server.
HARMLESS = {
    "application_name": "mine",
    "channel_binding": "prefer",
    "client_encoding": "LATIN1",
    "connect_timeout": "30",
    "fallback_application_name": "mine",
    "gssencmode": "disable",
    "keepalives": "1",
    "keepalives_count": "3",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "load_balance_hosts": "disable",
    "options": "-c work_mem=12MB -c search_path=pg_catalog",
    "sslcompression": "0",
    "sslmode": "prefer",
    "sslsni": "1",
    "target_session_attrs": "read-write",
    "tcp_user_timeout": "9000",
}


async def _connected(url: str, timeout_s: float = PATIENCE_S) -> Connection:
    return await Primary(url, timeout_s, 5_000, Epoch()).connect("telesto test")


def _with(url: str, **parameters: str) -> str:
    pairs = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return f"{url}{'&' if '?' in url else '?'}{pairs}"


@pytest.mark.parametrize("name", [option.keyword.decode() for option in Conninfo.get_defaults()])
def test_what_libpq_knows_is_known_or_refused_by_its_name(name: str) -> None:
    refused = ""
    try:
        read_database_url(_with("postgresql://localhost/x", **{name: HARMLESS.get(name, "1")}))
    except ValueError as error:
        refused = str(error)
    assert name in refused if refused else name not in ("hostaddr", "require_auth", "replication")
    assert not refused or name not in HARMLESS


async def test_what_is_known_is_no_setting_of_the_server(database_url: str) -> None:
    connection = await _connected(_with(database_url, **HARMLESS))
    shown = [await connection.fetchval(f"SHOW {name}") for name in ("work_mem", "client_encoding")]
    await connection.close()
    assert shown == ["12MB", "UTF8"]


@pytest.mark.parametrize(
    "parameter",
    [
        "channel_binding=require",
        "gssencmode=require",
        "hostaddr=127.0.0.1",
        "load_balance_hosts=random",
        "require_auth=scram-sha-256",
        "sslrootcert=system",
        "statement_timeout=5",
        "connect_timeout=soon",
        "port=70000",
    ],
)
@pytest.mark.parametrize("setting", ["database_url", "listen_database_url"])
def test_what_would_have_no_effect_is_refused_at_start(setting: str, parameter: str) -> None:
    with pytest.raises(ValidationError, match=parameter.split("=")[0]) as refused:
        ServerSettings(**{setting: f"postgresql://me:hunter2@localhost/x?{parameter}"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@[::1/x", "postgresql://me:hunter2@h:1:2/x", "hunter2"]
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ServerSettings(database_url=url)
    assert "hunter2" not in str(refused.value)


def test_servers_and_their_ports() -> None:
    read = read_database_url
    assert read("postgresql://one:1,two,[::1]:3/x").servers == (
        Server("one", 1),
        Server("two", None),
        Server("::1", 3),
    )
    assert read("postgresql:///x?host=/run/a,b&port=7").servers == (Server("/run/a", 7), Server("b", 7))
    assert read("postgresql:///x").servers == (Server(None, None),)
    with pytest.raises(ValueError, match="2 hosts and 3 ports"):
        read("postgresql:///x?host=a,b&port=1,2,3")


def test_the_time_to_connect_may_stand_in_the_url() -> None:
    seconds = [read_database_url(f"postgresql://h/x{end}").connect_s for end in ("", "?connect_timeout=0")]
    assert seconds == [None, None]
    assert read_database_url("postgresql://h/x?connect_timeout=7").connect_s == 7.0


async def test_a_server_that_does_not_answer_leaves_time_for_the_next(database_url: str) -> None:
    parts = urlsplit(database_url)
    user, _, host = parts.netloc.rpartition("@")
    async with _silent_server() as port:
        url = parts._replace(netloc=f"{user}@127.0.0.1:{port},{host}").geturl()
        connection = await _connected(url, timeout_s=4.0)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


async def test_each_server_says_why_it_cannot_be_had() -> None:
    async with _silent_server() as port:
        with pytest.raises(OSError, match=rf"127.0.0.1:{port}: it did not.*; 127.0.0.1:1: .*refused"):
            await _connected(f"postgresql://me@127.0.0.1:{port},127.0.0.1:1/x", timeout_s=0.2)


@contextlib.asynccontextmanager
async def _silent_server() -> AsyncIterator[int]:
    """A port that takes connections and never says a word, as a machine that hangs."""
    writers = []

    async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()
