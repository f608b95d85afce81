"""Structured log lines. They never contain a message's body, a token or a password."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

#: The id of this process's middleware; 0 before it is registered.
_middleware_id = 0

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, *, json: bool) -> None:
    """Configures structlog for this process: to standard error, as text or JSON."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    first: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_origin,
    ]
    last: list[Processor] = [structlog.processors.format_exc_info, renderer]
    stream = _Lasting(sys.stderr)
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    _take_over_logging(
        _FromLibraries(stream),
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, _add_part],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        ),
        max(_LEVELS[level], logging.WARNING),
    )


def identify(middleware_id: int) -> None:
    """Adds the middleware's id to all further lines of this process."""
    global _middleware_id
    _middleware_id = middleware_id


def middleware_id() -> int:
    """Returns the id of this process's middleware; 0 before it is registered."""
    return _middleware_id


def _add_origin(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Adds the process id and the middleware's id, because processes may share a stream."""
    event["pid"] = os.getpid()
    if _middleware_id:
        event["middleware"] = _middleware_id
    return event


def _add_part(_logger: object, _method: str, event: EventDict) -> EventDict:
    event["part"] = event["_record"].name
    return event


def _take_over_logging(handler: logging.Handler, formatter: logging.Formatter, level: int) -> None:
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for former in [former for former in root.handlers if isinstance(former, _FromLibraries)]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level)


class _FromLibraries(logging.StreamHandler["_Lasting"]):
    """Formats the lines of asyncio and other libraries in the same way."""


class _Lasting:
    """A stream whose failures are ignored, for example when the terminal was closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def logger(part: str) -> FilteringBoundLogger:
    """Returns the logger of a part of the middleware. It uses the configuration at the time of each line."""
    lazy: FilteringBoundLogger = structlog.get_logger(part=part)
    return lazy
