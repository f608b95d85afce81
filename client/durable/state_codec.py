"""The entries of a client's state as bytes.

Changes are a sequence of entries, each of one kind: a head, which says how long its parts are, and the parts.
An entry without parts drops what stood under its key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from telesto.client.calls.state import (
    RequestPhase,
    Scope,
    StateChanges,
    StoredClient,
    StoredHandOver,
    StoredPosition,
    StoredRequest,
)

#: Kind, key, and the lengths of the three parts: numbers, incarnation or name, payload.
_HEAD = struct.Struct(">BQBHI")
#: Behind the payload of a request stands its outcome: this much of both is payload.
_REQUEST = struct.Struct(">QQQHBI")
_HAND_OVER = struct.Struct(">QQQQ?")
_POSITION = struct.Struct(">QQ")
#: Attempts, id, first session, length of the name; no id and no name are told from empty ones by flags.
_CLIENT = struct.Struct(">QQQ??H")

_CLEAR, _CLIENT_KIND, _REQUEST_KIND, _HAND_OVER_KIND, _POSITION_KIND = range(5)

EntryT = TypeVar("EntryT")
#: The parts of an entry: numbers, incarnation, payload.
_Parts = tuple[bytes, bytes, bytes]


def encode(changes: StateChanges) -> bytes:
    """Returns the changes as bytes."""
    pieces: list[bytes] = []
    if changes.clear:
        _add(pieces, _CLEAR, 0, None)
    if changes.client is not None:
        _add(pieces, _CLIENT_KIND, 0, _client_parts(changes.client))
    _add_all(pieces, _REQUEST_KIND, changes.requests, _request_parts)
    _add_all(pieces, _HAND_OVER_KIND, changes.hand_overs, _hand_over_parts)
    _add_all(pieces, _POSITION_KIND, changes.positions, _position_parts)
    return b"".join(pieces)


def decode(data: bytes) -> StateChanges:
    """Returns the changes. Raises ValueError for bytes that ``encode`` did not make."""
    changes = StateChanges()
    try:
        for kind, key, parts in _entries(data):
            if kind == _CLEAR:
                changes = StateChanges(clear=True)
            elif kind == _CLIENT_KIND:
                changes.client = _client(parts)
            elif kind == _REQUEST_KIND:
                changes.requests[key] = _request(key, parts)
            elif kind == _HAND_OVER_KIND:
                changes.hand_overs[key] = _hand_over(key, parts)
            elif kind == _POSITION_KIND:
                changes.positions[key] = _position(key, parts)
            else:
                raise ValueError(f"an entry is of kind {kind}")
    except struct.error as error:
        raise ValueError(f"an entry is cut off: {error}") from error
    return changes


def _add(pieces: list[bytes], kind: int, key: int, parts: _Parts | None) -> None:
    parts = parts or (b"", b"", b"")
    pieces.append(_HEAD.pack(kind, key, *map(len, parts)))
    pieces.extend(parts)


def _add_all(
    pieces: list[bytes],
    kind: int,
    entries: Mapping[int, EntryT | None],
    parts_of: Callable[[EntryT], _Parts],
) -> None:
    for key, entry in entries.items():
        _add(pieces, kind, key, None if entry is None else parts_of(entry))


def _entries(data: bytes) -> Iterator[tuple[int, int, _Parts]]:
    offset = 0
    while offset < len(data):
        kind, key, *lengths = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
        parts = []
        for length in lengths:
            parts.append(data[offset : offset + length])
            offset += length
        yield kind, key, (parts[0], parts[1], parts[2])
    if offset > len(data):
        raise ValueError("the last entry is cut off")


def _client_parts(client: StoredClient) -> _Parts:
    name = (client.name or "").encode()
    known = client.client_id is not None and client.incarnation is not None
    numbers = _CLIENT.pack(
        client.attempts,
        client.client_id or 0,
        client.first_session,
        known,
        client.name is not None,
        len(name),
    )
    return numbers, (client.incarnation or "").encode(), name + client.token


def _client(parts: _Parts) -> StoredClient:
    attempts, client_id, first_session, known, named, length = _CLIENT.unpack(parts[0])
    name, token = parts[2][:length].decode(), parts[2][length:]
    return StoredClient(
        token,
        attempts,
        name if named else None,
        client_id if known else None,
        parts[1].decode() if known else None,
        first_session,
    )


def _request_parts(request: StoredRequest) -> _Parts:
    numbers = _REQUEST.pack(
        request.scope.client_id,
        request.session,
        request.number,
        request.method_id,
        request.phase,
        len(request.payload),
    )
    return numbers, request.scope.incarnation.encode(), request.payload + request.outcome


def _request(position: int, parts: _Parts) -> StoredRequest | None:
    if not parts[0]:
        return None
    client_id, session, number, method_id, phase, length = _REQUEST.unpack(parts[0])
    scope = Scope(parts[1].decode(), client_id)
    payload, outcome = parts[2][:length], parts[2][length:]
    return StoredRequest(position, scope, session, number, method_id, payload, RequestPhase(phase), outcome)


def _hand_over_parts(entry: StoredHandOver) -> _Parts:
    numbers = _HAND_OVER.pack(
        entry.scope.client_id, entry.session, entry.number, entry.message_id, entry.taken
    )
    return numbers, entry.scope.incarnation.encode(), b""


def _hand_over(position: int, parts: _Parts) -> StoredHandOver | None:
    if not parts[0]:
        return None
    client_id, session, number, message_id, taken = _HAND_OVER.unpack(parts[0])
    scope = Scope(parts[1].decode(), client_id)
    return StoredHandOver(position, scope, session, number, message_id, taken)


def _position_parts(entry: StoredPosition) -> _Parts:
    return _POSITION.pack(entry.scope.client_id, entry.number), entry.scope.incarnation.encode(), b""


def _position(subscription_id: int, parts: _Parts) -> StoredPosition | None:
    if not parts[0]:
        return None
    client_id, number = _POSITION.unpack(parts[0])
    return StoredPosition(Scope(parts[1].decode(), client_id), subscription_id, number)
