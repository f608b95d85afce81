"""Middlewares with a database, in the running event loop."""

import asyncio
from typing import Any

from faults.service.listening import stop_listening

#: How long a stop may take on a very busy machine; it waits for clients and the database.
PATIENCE_S = 60.0


async def start_middleware(database_url: str, port: int = 0, **settings: Any) -> Any:
    from pydantic import SecretStr

    from telesto.middleware.common.settings import ServerSettings
    from telesto.middleware.server import MiddlewareServer

    server = MiddlewareServer(ServerSettings(port=port, database_url=SecretStr(database_url), **settings))
    await server.start()
    return server


async def stop_middleware(server: Any) -> None:
    await stop_listening(server.listener)
    server.request_stop()
    await asyncio.wait_for(server.wait_closed(), PATIENCE_S)
