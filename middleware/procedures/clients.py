"""Logging in, registering, identifying and deleting clients, and giving hand-overs back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from telesto.db import calls
from telesto.middleware.common.failures import (
    FailedError,
    Failure,
    check_error,
    failure_of,
)
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.procedures.unconfirmed import IDENTIFY_BYTES, LIST_BYTES, read_page
from telesto.middleware.scheduling.requests import Client, Request, for_people
from telesto.middleware.scheduling.single_request import (
    Call,
    OneCall,
    Reply,
    Row,
    arrivals_of,
    follow_up,
    numbered,
)
from telesto.middleware.security.users import readable_by
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import (
    AuthenticateResponse,
    ClientMode,
    IdentifyClient,
    IdentifyClientResponse,
    ListUnconfirmedResponse,
    RegisterClientResponse,
    Success,
)


async def authenticate(call: Call, request: Request, settings: ServerSettings) -> Reply:
    """Takes a step of the login of a connection."""
    login, packet = request.pipeline.login, request.packet
    assert login is not None
    # A proof is checked without a call to the database, so this is where others have their turn.
    await asyncio.sleep(0)
    data, user = await login.step(packet.mechanism, packet.data)
    return Reply(AuthenticateResponse(data, user is not None), user=user)


def _register(request: Request, _settings: ServerSettings) -> calls.Statement:
    packet = request.packet
    return calls.register_client(
        name=packet.client_name,
        mode=int(packet.mode),
        token=packet.token,
        attempt=packet.attempt,
        temporary=bool(packet.temporary),
        process=for_people(packet.process or ""),
        library=request.pipeline.library,
        address=request.pipeline.address,
        asking_user=None if request.pipeline.user is None else request.pipeline.user.user_id,
    )


def _register_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row, packet = rows[0], request.packet
    check_error(row["error"], _not_registered(row["error"], packet.client_name))
    return Reply(
        RegisterClientResponse(row["client_id"], row["session"], row["incarnation"]),
        identity=Client(row["client_id"], row["session"], packet.mode, bool(packet.temporary)),
    )


def _not_registered(error: int | None, name: str) -> str:
    if error == ErrorCode.CLIENT_NAME_NOT_UNIQUE:
        return f"a client named {name!r} exists already; IdentifyClient becomes it"
    return f"client {name!r} was not registered"


async def identify_client(call: Call, request: Request, settings: ServerSettings) -> Reply:
    """Opens a new session and lists what the sessions before it left unconfirmed."""
    packet, user = request.packet, request.pipeline.user
    limited = None if user is None or user.administrator else user
    identify = calls.identify_client(
        wanted_id=packet.client_id,
        wanted_name=packet.client_name,
        token=packet.token,
        resume=bool(packet.resume),
        attempt=packet.attempt,
        wanted_mode=packet.mode,
        process=for_people(packet.process or ""),
        library=request.pipeline.library,
        address=request.pipeline.address,
        asking_user=None if limited is None else limited.user_id,
        names=None if limited is None else limited.patterns["clients"],
        readable=readable_by(limited),
    )
    row = (await call(*identify))[0]
    wanted = packet.client_id or repr(packet.client_name)
    details = f"client {wanted} was not identified"
    if row["error"] == ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION:
        details = f"client {wanted} exists and is {ClientMode(row['mode']).name}, not {packet.mode.name}"
    elif row["error"] == ErrorCode.CLIENT_NOT_EXISTING:
        details = f"there is no client {wanted}"
    check_error(row["error"], details, packet.client_id or None)
    client = Client(row["client_id"], row["session"], ClientMode(row["mode"]), row["temporary"])
    followed = partial(follow_up, call)
    page = await read_page(followed, client, user, request.pipeline.frame_bytes, IDENTIFY_BYTES, settings)
    answer = IdentifyClientResponse(
        client_id=client.client_id,
        client_name=row["client_name"],
        mode=client.mode,
        session=client.session,
        incarnation=row["incarnation"],
        next_number=1,
        operations=page.operations,
        hand_overs=page.hand_overs,
        more=page.more,
        too_large=page.too_large or None,
        denied=page.denied or None,
    )
    return Reply(
        answer,
        identity=client,
        arrivals=arrivals_of(row["queue_ids"], row["receiver_ids"]),
        audited={"taken_from": json.loads(row["former"] or "{}")},
    )


async def list_unconfirmed(call: Call, request: Request, settings: ServerSettings) -> Reply:
    """Lists the next page of a takeover."""
    packet, pipeline = request.packet, request.pipeline
    page = await read_page(
        call,
        pipeline.client,
        pipeline.user,
        pipeline.frame_bytes,
        LIST_BYTES,
        settings,
        packet.after_operation,
        packet.after_hand_over,
    )
    if page.more and page.empty:
        details = "the results of a request do not fit the frames that the client accepts"
        raise FailedError(failure_of(ErrorCode.MESSAGE_TOO_LARGE, details))
    return Reply(
        ListUnconfirmedResponse(
            page.operations,
            page.hand_overs,
            page.more,
            too_large=page.too_large or None,
            denied=page.denied or None,
        )
    )


def _delete(request: Request, _settings: ServerSettings) -> calls.Statement:
    return calls.delete_client_numbered(**numbered(request))


def _delete_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row = rows[0]
    client_id = request.pipeline.client.client_id
    check_error(row["error"], f"client {client_id} was not deleted", client_id)
    return Reply(Success(), arrivals=arrivals_of(row["queue_ids"], row["receiver_ids"]), last=True)


def _release(request: Request, _settings: ServerSettings) -> calls.Statement:
    client, references = request.pipeline.client, request.packet.hand_overs
    return calls.release_batch(
        client_id=client.client_id,
        session=client.session,
        sessions=[reference.session for reference in references],
        numbers=[reference.number for reference in references],
        message_ids=[reference.message_id for reference in references],
    )


def _release_reply(request: Request, rows: list[Row], _settings: ServerSettings) -> Reply:
    row = rows[0]
    check_error(row["error"], "nothing was given back")
    return Reply(Success(), arrivals=arrivals_of(row["queue_ids"], row["receiver_ids"]))


async def taken_over(call: Call, requests: Iterable[Request], failure: Failure) -> dict[int, Failure]:
    """Tells by whom the clients of requests that failed as fenced were taken over, for people.

    Returns the failure of each client of which that is known, by the client's id.
    """
    client_ids = {_client_of(request) for request in requests}
    try:
        rows = await call(*calls.get_sessions(client_ids=list(client_ids)))
    except Exception:  # noqa: BLE001 - whatever it was, the failure itself says enough
        return {}
    return {
        row["client_id"]: replace(
            failure,
            details=f"{row['process'] or 'a process'} at {row['address'] or 'an unknown address'}, with "
            f"{row['library'] or 'an unknown library'}, since "
            f"{datetime.fromtimestamp(row['since'] // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC",
        )
        for row in rows
        if row["process"] or row["address"]
    }


def _client_of(request: Request) -> int:
    packet = request.packet
    return packet.client_id if isinstance(packet, IdentifyClient) else request.pipeline.client.client_id


REGISTER_CLIENT = OneCall(_register, _register_reply)
DELETE_CLIENT = OneCall(_delete, _delete_reply)
RELEASE = OneCall(_release, _release_reply)
