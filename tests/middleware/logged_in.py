"""Users in the database, and connections that are logged in as one of them."""

from __future__ import annotations

from typing import Any

import psycopg

from conftest import Connect
from logins import PASSWORD, ScramLogin
from telesto.middleware.security.login import make_verifier
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from wire import Wire, until

VERIFIER = make_verifier(PASSWORD)

#: A change has to hold after this time, in seconds; then nothing but a notification can have told it.
SOON_S = 5.0


def add_user(database: psycopg.Connection, name: str, **columns: Any) -> None:
    """Adds a user: `put=["orders-*"]`, `monitor=True`."""
    columns = {"verifier": VERIFIER} | columns
    names = ["name", *columns]
    values = ", ".join(["%s"] * len(names))
    statement = f"INSERT INTO telesto.users ({', '.join(names)}) VALUES ({values})"
    database.execute(statement.encode(), (name, *columns.values()))


async def change_user(
    server: MiddlewareServer, database: psycopg.Connection, name: str, **columns: Any
) -> None:
    """Changes a user, and returns once the middleware knows."""
    user = await server.users.find(name)
    assert user is not None
    assignments = ", ".join(f"{column} = %s" for column in columns)
    database.execute(
        f"UPDATE telesto.users SET {assignments} WHERE name = %s".encode(), (*columns.values(), name)
    )

    def known() -> bool:
        return all(
            user.patterns[column] == tuple(value)
            if column in user.patterns
            else getattr(user, column) == value
            for column, value in columns.items()
        )

    await until(known, SOON_S)


async def logged_in(server: MiddlewareServer, connect: Connect, name: str) -> Wire:
    """Opens a connection that is logged in as a user."""
    await until(lambda: server.users.required)
    wire = await connect(server)
    await wire.hello()
    answer = await ScramLogin(wire, name).whole()
    assert isinstance(answer, packets.AuthenticateResponse), answer
    return wire
