"""Structured log lines. They never hold a message's body, a token or a password."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(level: str, *, json: bool) -> None:
    """Sets up structlog for this process: to standard error, for people or as JSON."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(_Lasting(sys.stderr)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )


class _Lasting:
    """A stream that may fail, as standard error does when its terminal is gone; the service goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def logger(part: str) -> FilteringBoundLogger:
    """Returns the logger of a part of the middleware; it follows what is configured later."""
    lazy: FilteringBoundLogger = structlog.get_logger(part=part)
    return lazy
