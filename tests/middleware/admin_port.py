"""Requests to the admin port of a middleware."""

import asyncio

from telesto.middleware.server import MiddlewareServer
from wire import PATIENCE_S


async def fetch(address: tuple[str, int] | None, request: bytes) -> tuple[int, bytes]:
    """Status and body of an answer of the admin port."""
    assert address is not None
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]) if head else 0, body


async def health(server: MiddlewareServer, path: str) -> tuple[int, list[str]]:
    """Status and lines of /livez or /readyz."""
    status, body = await fetch(server.admin_address, f"GET {path} HTTP/1.1\r\n\r\n".encode())
    return status, body.decode().splitlines()
