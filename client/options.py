"""The client's bounds and times, each with a name and a sensible value."""

from __future__ import annotations

from dataclasses import dataclass, fields

from telesto.client.showing import show_fields
from telesto.protocol.errors import InvalidParameterError

#: This library needs frames of this size at least, for the leases and numbers that it names at a time. Every
#: middleware accepts them; other clients may do with less (MAX_FRAME_LEAST of the protocol).
LIBRARY_FRAME_LEAST = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a client allows itself. Times are in seconds.

    Attributes:
        call_timeout: how long a call may take over all its tries, beyond the time that a read waits.
        try_timeout: how long one try may take before the client leaves the connection for another one.
        max_tries: how often a request that fails and was not done is tried.
        connect_tries: how often all addresses are tried when a client connects for the first time; None for
            as often as ``call_timeout`` lets it.
        greeting_timeout: a client that connects for the first time gives up when all addresses have accepted
            connections for so long and none has answered: another kind of server may be there.
        connect_timeout: how long one attempt to open a connection may take.
        close_timeout: how long ``close`` waits for answers under way and for the last confirmation.
        backoff_initial: the first pause after a failure; pauses double, with jitter.
        backoff_max: the longest pause.
        ping_after: a connection on which something is awaited, and nothing came for so long, sends a Ping.
            When no byte comes within the same time again, the client leaves it for another one.
        keep_alive: a connection that sent nothing for so long sends a Ping; earlier if the middleware asks.
        confirm_after: answers taken are confirmed by the next request, or by themselves after so long.
        auto_confirm: a message counts as taken when the call returns it. False: when ``confirm`` is called;
            what was not confirmed comes again, marked redelivered, when the client connects the next time.
        temporary_when_fenced: when another process becomes this client, the calls under way raise
            SessionFencedError, and the next call makes a temporary client. False: later calls raise it too.
        recovered_hold: how long messages that nobody waits for any more are kept for the next matching read
            before they are given back to their queue.
        max_recovered: how many of them are kept at most.
        max_state_bytes: how many bytes of puts a ``state_dir`` holds; while it holds more,
            further requests wait.
        max_waiting_calls: how many calls may stand in line.
        max_frame: the longest frame that the client accepts, in bytes; 65,536 at least.
        put_batch_messages: how many messages ``put_many`` sends in one request at most, and how many single
            puts travel together.
        put_batch_bytes: how many bytes ``put_many`` sends in one request; a larger message goes alone.
        put_batches_in_flight: how many such requests ``put_many`` has under way.
        fetch_ahead: how many messages of topics an iterator fetches at a time.
        page_size: how many rows listings ask for at a time.
        max_addresses: how many addresses are remembered, those given in the URL included.
        shuffle_addresses: start with a random address instead of the first one.
    """

    call_timeout: float = 30.0
    try_timeout: float = 10.0
    max_tries: int = 5
    connect_tries: int | None = None
    greeting_timeout: float = 2.0
    connect_timeout: float = 5.0
    close_timeout: float = 2.0
    backoff_initial: float = 0.05
    backoff_max: float = 2.0
    ping_after: float = 1.0
    keep_alive: float = 15.0
    confirm_after: float = 0.05
    auto_confirm: bool = True
    temporary_when_fenced: bool = False
    recovered_hold: float = 30.0
    max_recovered: int = 10_000
    max_state_bytes: int = 64 * 1024 * 1024
    max_waiting_calls: int = 65_536
    max_frame: int = 16 * 1024 * 1024
    put_batch_messages: int = 256
    put_batch_bytes: int = 1024 * 1024
    put_batches_in_flight: int = 8
    fetch_ahead: int = 100
    page_size: int = 500
    max_addresses: int = 64
    shuffle_addresses: bool = False

    __repr__ = show_fields

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "bool":
                if not isinstance(value, bool):
                    raise TypeError(f"{field.name} must be a bool, not {type(value).__name__}")
                continue
            if field.type == "int | None" and value is None:
                continue
            whole = field.type in ("int", "int | None")
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise TypeError(f"{field.name} must be a number ({field.type}), not {type(value).__name__}")
            if not value > 0:
                raise InvalidParameterError(f"{field.name} must be above 0, not {value!r}")
            if field.name in ("max_frame", "page_size", "fetch_ahead") and value >= 2**32:
                raise InvalidParameterError(f"{field.name} must be below 2^32")
        if self.max_frame < LIBRARY_FRAME_LEAST:
            raise InvalidParameterError(
                f"max_frame must be at least {LIBRARY_FRAME_LEAST}, not {self.max_frame}"
            )
