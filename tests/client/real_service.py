"""Middlewares with a database, in the running event loop."""

from __future__ import annotations

import asyncio
from typing import Any


async def start_middleware(database_url: str, port: int = 0) -> Any:
    from pydantic import SecretStr

    from telesto.middleware.common.settings import ServerSettings
    from telesto.middleware.server import MiddlewareServer

    settings = ServerSettings(port=port, database_url=SecretStr(database_url))
    server = MiddlewareServer(settings)
    await server.start()
    return server


async def stop_middleware(server: Any) -> None:
    server.request_stop()
    await asyncio.wait_for(server.wait_closed(), 20)
