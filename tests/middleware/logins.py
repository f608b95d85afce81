"""Users, and logins by raw packets, for tests."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import psycopg
import scramp

from telesto.middleware.security.login import make_verifier
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from wire import Wire

PASSWORD = "hunter2 horse, battery"


def add_user(url: str, name: str, password: str | None = PASSWORD, **columns: Any) -> None:
    """Adds a user to the database."""
    verifier = None if password is None else make_verifier(password)
    values = {"name": name, "verifier": verifier, "clients": ["*"], **columns}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO telesto.users ({', '.join(values)}) "
            f"VALUES ({', '.join(['%s'] * len(values))})".encode(),
            list(values.values()),
        )


async def required(server: MiddlewareServer) -> None:
    """Has the middleware read now that there are users."""
    await server.users.read_again()
    assert server.users.required


class ScramLogin:
    """The client's side of SCRAM, message by message."""

    def __init__(
        self,
        wire: Wire,
        user: str,
        password: str = PASSWORD,
        mechanism: str = "SCRAM-SHA-256",
        secured: ssl.SSLObject | None = None,
    ) -> None:
        self.wire = wire
        self.mechanism = mechanism
        binding = None if secured is None else ("tls-server-end-point", secured)
        self.scram = scramp.ScramClient([mechanism], user, password, channel_binding=binding)

    async def begin(self) -> Any:
        """Sends the first message; returns the answer."""
        return await self.say(self.scram.get_client_first())

    async def prove(self, challenge: packets.AuthenticateResponse) -> Any:
        """Sends the proof; returns the answer."""
        assert isinstance(challenge, packets.AuthenticateResponse), challenge
        assert not challenge.done
        self.scram.set_server_first(challenge.data.decode())
        return await self.say(self.scram.get_client_final())

    async def whole(self) -> Any:
        """Logs in; returns the last answer, whose signature is checked if it has one."""
        answer = await self.begin()
        if isinstance(answer, packets.Error):
            return answer
        answer = await self.prove(answer)
        if isinstance(answer, packets.AuthenticateResponse):
            assert answer.done
            self.scram.set_server_final(answer.data.decode())
        return answer

    async def say(self, text: str) -> Any:
        """Sends a message; returns the answer."""
        return await self.wire.ask(packets.Authenticate(self.mechanism, text.encode()))


async def open_tls(server: MiddlewareServer, context: ssl.SSLContext) -> tuple[Wire, ssl.SSLObject]:
    """Opens a connection by TLS; returns it and its TLS."""
    host, port = server.address
    reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
    return Wire(reader, writer), writer.get_extra_info("ssl_object")
