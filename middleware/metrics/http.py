"""The admin port: /metrics, /phases, /livez and /readyz."""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Callable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Info, ProcessCollector, generate_latest

from telesto.middleware.metrics.counters import Counters, CountersCollector
from telesto.middleware.metrics.tracing import Tracer
from telesto.version import VERSION

_REQUEST_LIMIT_BYTES = 8_192
_REQUEST_LIMIT_S = 5.0
#: The number of concurrent connections. One more ends the oldest, so that silent ones keep no probe out.
CONNECTIONS_MAX = 16

_TEXT = "text/plain; charset=utf-8"
_CSV = "text/csv; charset=utf-8"
_AFTER = re.compile(rb"after=([0-9]{1,18})")
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class AdminServer:
    """Answers GET /metrics, /phases, /livez and /readyz, one request per connection."""

    def __init__(
        self,
        counters: Counters,
        tracer: Tracer,
        failed: Callable[[], list[str]],
        unready: Callable[[], list[str]],
        nearly_used_up: Callable[[], list[str]],
    ) -> None:
        """Each of the functions returns lines, none if all is well.

        Args:
            failed: why the middleware has to be started again.
            unready: why clients should use another one.
            nearly_used_up: the budgets of which little is left.
        """
        self._registry = CollectorRegistry()
        self._registry.register(CountersCollector(counters))
        ProcessCollector(registry=self._registry)
        build = Info("telesto_build", "The version of Telesto and of Python.", registry=self._registry)
        build.info({"version": VERSION, "python": platform.python_version()})
        self._tracer = tracer
        self._failed = failed
        self._unready = unready
        self._nearly_used_up = nearly_used_up
        self._open: dict[asyncio.StreamWriter, None] = {}

    def make_connection(self) -> asyncio.Protocol:
        """Returns the protocol of a connection that was accepted."""
        reader = asyncio.StreamReader(limit=_REQUEST_LIMIT_BYTES)
        return asyncio.StreamReaderProtocol(reader, self._serve)

    def end_connections(self) -> None:
        """Ends all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()  # with TLS, ``close`` would wait for the peer
        self._open[writer] = None
        try:
            async with asyncio.timeout(_REQUEST_LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._open.pop(writer, None)

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] != b"GET":
            return _response("405 Method Not Allowed", _TEXT, b"only GET is answered\n")
        path, _, query = words[1].partition(b"?")
        if path == b"/metrics":
            return _response("200 OK", _METRICS, generate_latest(self._registry))
        if path == b"/phases":
            return self._phases_after(query)
        if path == b"/livez":
            return _health(self._failed(), "alive", [])
        if path == b"/readyz":
            return _health(self._unready(), "ready", self._nearly_used_up())
        return _response("404 Not Found", _TEXT, b"there are /metrics, /phases, /livez and /readyz\n")

    def _phases_after(self, query: bytes) -> bytes:
        """Returns the samples of phases: all, or those after the number in the query."""
        found = _AFTER.fullmatch(query)
        if query and found is None:
            return _response("400 Bad Request", _TEXT, b"write /phases?after=NUMBER\n")
        after = int(found[1]) if found else 0
        return _response("200 OK", _CSV, self._tracer.as_csv(after).encode())


def _health(troubles: list[str], well: str, notes: list[str]) -> bytes:
    status = "503 Service Unavailable" if troubles else "200 OK"
    lines = [f"not {well}: {trouble}" for trouble in troubles] or [well]
    lines += [f"nearly used up: {note}" for note in notes]
    return _response(status, _TEXT, "".join(f"{line}\n" for line in lines).encode())


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
