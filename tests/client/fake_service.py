"""A service in memory, without I/O, that keeps to the rules of numbers, fence and takeover."""

from __future__ import annotations

import itertools
import re
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import scramp

from fake_topics import FakeTopics, TopicRefusalError
from telesto.protocol import packets
from telesto.protocol.errors import ERRORS, ErrorClass, ErrorCode
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import ClientMode, ConnectionState, ReadMode
from telesto.protocol.queue_settings import QUEUE_SETTINGS

FOREVER = 0xFFFFFFFF
#: Bytes of a listed message and its frame beside the body, at most.
LISTED_OVERHEAD = 136


@dataclass
class Stored:
    """A message in the store; ``ready`` while it is in its queue."""

    message_id: int
    queue_id: int
    sender_id: int
    receiver_id: int
    priority: int
    context: int | None
    body: bytes
    attempt: int = 0
    redelivered: bool = False
    headers: list[packets.Header] | None = None

    def packet(self) -> packets.Message:
        return packets.Message(
            self.message_id,
            self.queue_id,
            self.sender_id,
            self.receiver_id,
            self.priority,
            1_700_000_000_000_000 + self.message_id,
            self.attempt,
            self.redelivered,
            self.body,
            self.context,
            headers=self.headers,
        )

    def record(self, state: packets.MessageState) -> packets.MessageRecord:
        return packets.MessageRecord(
            state,
            self.queue_id,
            "",
            self.sender_id,
            "",
            self.receiver_id,
            self.priority,
            self.context,
            1_700_000_000_000_000 + self.message_id,
            self.attempt,
            self.redelivered,
            headers=self.headers,
        )


#: Those of a queue that is created without any; the bound stands apart.
USUAL_SETTINGS = {name: setting.default for name, setting in QUEUE_SETTINGS.items() if name != "max_messages"}


@dataclass
class StoredQueue:
    queue_id: int
    name: str
    max_messages: int | None
    messages: list[Stored] = field(default_factory=list)
    put_total: int = 0
    taken_total: int = 0
    settings: dict[str, Any] = field(default_factory=lambda: dict(USUAL_SETTINGS))
    keys: dict[str, int] = field(default_factory=dict)


@dataclass
class StoredClient:
    client_id: int
    name: str
    mode: ClientMode
    token: bytes
    session: int = 0
    attempt: int = 0


@dataclass
class Fault:
    """What happens to the next request of a method instead of, or after, its execution."""

    method: type[packets.Packet]
    code: ErrorCode
    error_class: ErrorClass | None = None
    after_execution: bool = False
    retry_after_ms: int | None = None


class RefusalError(Exception):
    def __init__(self, code: ErrorCode, related_id: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.related_id = related_id


@dataclass
class Parked:
    connection: FakeConnection
    packet_id: int
    packet: Any
    until: float


_BEFORE_IDENTITY = (
    packets.Hello,
    packets.Authenticate,
    packets.Ping,
    packets.RegisterClient,
    packets.IdentifyClient,
)


def _handler_name(packet: str) -> str:
    return "_on" + re.sub("([A-Z])", r"_\1", packet).lower()


class FakeService:
    """The database and any number of middlewares in one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.incarnation = uuid.uuid4().hex
        self.max_unconfirmed = 1024
        self.max_body: int | None = 1 << 23
        self.max_put_elements: int | None = 1000
        self.max_frame = 1 << 24
        self.idle_limit_ms = 0
        self.page_rows = 1000
        #: Queues from which the client's user may not read any more, as a takeover tells it.
        self.unreadable: set[int] = set()
        self.addresses: list[str] = []
        #: The passwords of the users; with any, a connection has to log in.
        self.passwords: dict[str, str] = {}
        self.clients: dict[int, StoredClient] = {}
        self.queues: dict[int, StoredQueue] = {}
        self.operations: dict[tuple[int, int, int], packets.OperationResult] = {}
        self.deliveries: dict[tuple[int, int, int], list[Stored]] = {}
        self.topics = FakeTopics()
        self.connections: list[FakeConnection] = []
        self.parked: deque[Parked] = deque()
        self.faults: list[Fault] = []
        self.put_bodies: list[tuple[int, bytes]] = []
        self.confirmed_unknown = 0
        self.received: list[packets.Packet] = []
        self._ids = itertools.count(1)
        self._sessions = itertools.count(100)

    def connect(self) -> FakeConnection:
        connection = FakeConnection(self)
        self.connections.append(connection)
        return connection

    def tick(self) -> None:
        """Answers the reads whose time is up."""
        for parked in list(self.parked):
            if parked.until <= self.clock():
                self.parked.remove(parked)
                parked.connection.answer_read(parked.packet_id, parked.packet, [])

    def add_queue(self, name: str, max_messages: int | None = None) -> int:
        queue_id = next(self._ids)
        self.queues[queue_id] = StoredQueue(queue_id, name, max_messages)
        return queue_id

    # ---------------------------------------------------------------- procedures

    def register(self, name: str, mode: ClientMode, token: bytes, attempt: int = 0) -> StoredClient:
        for client in self.clients.values():
            if client.name == name:
                if client.token != token:
                    raise RefusalError(ErrorCode.CLIENT_NAME_NOT_UNIQUE)
                if client.mode is not mode:
                    raise RefusalError(ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION)
                self._open_session(client, token, attempt)
                return client
        client = StoredClient(next(self._ids), name, mode, token, next(self._sessions))
        client.attempt = attempt
        self.clients[client.client_id] = client
        return client

    def identify(
        self,
        client_id: int,
        name: str,
        token: bytes | None = None,
        resume: bool = False,
        attempt: int = 0,
        mode: ClientMode | None = None,
    ) -> StoredClient:
        for client in self.clients.values():
            if client.client_id == client_id or (client_id == 0 and client.name == name):
                if mode is not None and client.mode is not mode:
                    raise RefusalError(ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION)
                if resume and client.token != token:
                    raise RefusalError(ErrorCode.SESSION_FENCED)
                self._open_session(client, token or b"", attempt)
                return client
        raise RefusalError(ErrorCode.CLIENT_NOT_EXISTING)

    def _open_session(self, client: StoredClient, token: bytes, attempt: int) -> None:
        if token and client.token == token and attempt <= client.attempt:
            raise RefusalError(ErrorCode.SESSION_FENCED)
        client.token = token
        client.attempt = attempt
        client.session = next(self._sessions)

    def unconfirmed_operations(self, client_id: int, after: tuple[int, int]) -> list[packets.OperationResult]:
        rows = sorted(
            (key[1:], row) for key, row in self.operations.items() if key[0] == client_id and key[1:] > after
        )
        return [row for _, row in rows]

    def unconfirmed_hand_overs(self, client_id: int, after: tuple[int, int, int]) -> list[packets.HandOver]:
        return [
            packets.HandOver(session, number, stored.packet())
            for (client, session, number), messages in sorted(self.deliveries.items())
            for stored in sorted(messages, key=lambda message: message.message_id)
            if client == client_id and (session, number, stored.message_id) > after
        ]

    def confirm(self, client_id: int, session: int, number: int, message_id: int = 0) -> None:
        key = (client_id, session, number)
        if message_id:
            messages = self.deliveries.get(key, [])
            kept = [stored for stored in messages if stored.message_id != message_id]
            if len(kept) == len(messages):
                self.confirmed_unknown += 1
            elif kept:
                self.deliveries[key] = kept
            else:
                del self.deliveries[key]
            return
        found = self.operations.pop(key, None), self.deliveries.pop(key, None)
        if found == (None, None):
            self.confirmed_unknown += 1

    def put(
        self, client_id: int, queue_id: int, message: packets.NewMessage, *, takes: bool = True
    ) -> packets.PutResult:
        queue = self.queues.get(queue_id)
        if queue is None:
            return packets.PutResult(queue_id, 0, False, ErrorCode.QUEUE_NOT_EXISTING)
        first = queue.keys.get(message.dedup_key or "")
        if first is not None:
            return packets.PutResult(queue_id, first, True, None)
        if not takes or (queue.max_messages is not None and len(queue.messages) >= queue.max_messages):
            return packets.PutResult(queue_id, 0, False, ErrorCode.QUEUE_FULL)
        stored = Stored(
            next(self._ids),
            queue_id,
            client_id,
            message.receiver_id,
            message.priority,
            message.context,
            message.body,
            headers=message.headers,
        )
        queue.messages.append(stored)
        queue.put_total += 1
        if message.dedup_key is not None:
            queue.keys[message.dedup_key] = stored.message_id
        self.put_bodies.append((queue_id, message.body))
        return packets.PutResult(queue_id, stored.message_id, False, None)

    def claim(self, client_id: int, packet: Any) -> list[Stored]:
        queue = self.queues.get(packet.queue_id)
        if queue is None:
            raise RefusalError(ErrorCode.QUEUE_NOT_EXISTING, packet.queue_id)
        if isinstance(packet, packets.ReadMessage):
            matching = [
                stored
                for stored in queue.messages
                if stored.receiver_id in (0, client_id) and packet.sender_id in (0, stored.sender_id)
            ]
            by_time = packet.mode is ReadMode.TIME or packet.mode == ReadMode.TIME
            most, size_max = packet.max_messages, packet.max_bytes
        else:
            matching = [
                stored
                for stored in queue.messages
                if stored.receiver_id == client_id and stored.context == packet.context
            ]
            by_time, most, size_max = True, 1, 0
        matching.sort(key=lambda stored: (0 if by_time else -stored.priority, stored.message_id))
        taken: list[Stored] = []
        size = 0
        for stored in matching[:most]:
            size += len(stored.body)
            if size_max and size > size_max:
                if not taken:
                    raise RefusalError(ErrorCode.MESSAGE_TOO_LARGE, stored.message_id)
                break
            taken.append(stored)
        for stored in taken:
            queue.messages.remove(stored)
            queue.taken_total += 1
            stored.attempt += 1
        return taken

    def give_back(self, client_id: int, session: int, number: int, message_id: int) -> None:
        key = (client_id, session, number)
        for stored in self.deliveries.get(key, []):
            if stored.message_id == message_id:
                self.deliveries[key].remove(stored)
                if not self.deliveries[key]:
                    del self.deliveries[key]
                self._return(stored)
                return

    def delete_client(self, client_id: int) -> None:
        for key in [key for key in self.deliveries if key[0] == client_id]:
            for stored in self.deliveries.pop(key):
                self._return(stored)
        for key in [key for key in self.operations if key[0] == client_id]:
            del self.operations[key]
        del self.clients[client_id]

    def _return(self, stored: Stored) -> None:
        queue = self.queues.get(stored.queue_id)
        if queue is not None:
            stored.redelivered = True
            queue.messages.append(stored)
            queue.messages.sort(key=lambda message: message.message_id)
            queue.taken_total -= 1

    def wake(self) -> None:
        """Lets the parked reads look again."""
        for parked in list(self.parked):
            if parked in self.parked and parked.connection.retry_read(parked):
                self.parked.remove(parked)

    def kill(self, connection: FakeConnection) -> None:
        """The connection is gone; what it waits for is dropped."""
        connection.open = False
        for parked in [parked for parked in self.parked if parked.connection is connection]:
            self.parked.remove(parked)
        if connection in self.connections:
            self.connections.remove(connection)


class FakeConnection:
    """One connection; ``output`` are the frames for the client."""

    def __init__(self, service: FakeService) -> None:
        self.service = service
        self.decoder = FrameDecoder(service.max_frame)
        self.max_frame = service.max_frame
        self.output: list[bytes] = []
        self.open = True
        self.closing = False
        self.draining = False
        self.awaits_login = False
        self.scram: Any = None
        self.client: StoredClient | None = None
        self.session = 0
        self.last_number = 0
        self.seen_number = 0
        self.refusing: ErrorCode | None = None
        self.refused: dict[int, int] = {}
        self.unconfirmed: dict[int, int] = {}

    def take_output(self) -> bytes:
        output = b"".join(self.output)
        self.output.clear()
        return output

    def receive(self, data: bytes) -> None:
        """Executes the requests that are complete now."""
        for method_id, packet_id, payload in self.decoder.feed(data):
            if self.closing:
                return
            packet = packets.REQUESTS[method_id].packet.decode(payload)
            self.service.received.append(packet)
            try:
                self._request(packet_id, packet)
            except (RefusalError, TopicRefusalError) as refusal:
                self._error(packet_id, refusal.code, related_id=refusal.related_id)

    def go_away(self, addresses: list[str]) -> None:
        """Drains the connection."""
        self.draining = True
        self.output.append(packets.GoAway("stopping", addresses).encode(0))

    def answer_read(self, packet_id: int, packet: Any, taken: list[Stored]) -> None:
        if isinstance(packet, packets.GetFromTopics):
            self.output.append(packets.GetFromTopicsResponse([], []).encode(packet_id))
            return
        if not taken:
            self.unconfirmed.pop(packet.number, None)
        else:
            self.unconfirmed[packet.number] = len(taken)
        if taken and packet.number:
            assert self.client is not None
            self.service.deliveries[self.client.client_id, self.session, packet.number] = taken
        response = packets.REQUESTS[packet.METHOD_ID].response
        answer: Any = response([stored.packet() for stored in taken])  # type: ignore[call-arg]
        self.output.append(answer.encode(packet_id))

    def retry_read(self, parked: Parked) -> bool:
        """Answers a parked read if there is something for it now."""
        assert self.client is not None
        if self.client.session != self.session:
            self._error(parked.packet_id, ErrorCode.SESSION_FENCED)
            return True
        if isinstance(parked.packet, packets.GetFromTopics):
            return self._retry_get(parked)
        try:
            taken = self.service.claim(self.client.client_id, parked.packet)
        except RefusalError as refusal:
            self._error(parked.packet_id, refusal.code, related_id=refusal.related_id)
            return True
        if taken:
            self.answer_read(parked.packet_id, parked.packet, taken)
        return bool(taken)

    def _error(
        self,
        packet_id: int,
        code: ErrorCode,
        error_class: ErrorClass | None = None,
        related_id: int | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        error_class = error_class or ERRORS[code].error_class
        error = packets.Error(code, error_class, f"fake {code.name}", related_id, retry_after_ms)
        self.output.append(error.encode(packet_id))
        if error_class is ErrorClass.FATAL:
            self.closing = True

    def _refuse_behind(self, packet: Any) -> None:
        """Nothing overtakes a numbered request that was refused for now, until a number is left out."""
        number = getattr(packet, "number", 0)
        if self.client is None or number <= self.seen_number:
            return
        if number > self.seen_number + 1:
            self.refusing = None
            self.refused = {}
        self.seen_number = number
        if self.refusing is not None:
            raise RefusalError(self.refusing)

    def _note_refused(self, packet: Any, code: ErrorCode, error_class: ErrorClass) -> None:
        if self.client is not None and getattr(packet, "number", 0):
            if error_class is ErrorClass.RETRYABLE:
                self.refusing = code
            elif error_class is ErrorClass.IN_DOUBT:
                self.refusing = ErrorCode.DATABASE_UNAVAILABLE

    def _request(self, packet_id: int, packet: Any) -> None:
        self._refuse_behind(packet)
        fault = next((fault for fault in self.service.faults if type(packet) is fault.method), None)
        if fault is not None:
            self.service.faults.remove(fault)
            if fault.after_execution:
                answers = len(self.output)
                self._execute(packet_id, packet)
                del self.output[answers:]
            self._note_refused(packet, fault.code, fault.error_class or ERRORS[fault.code].error_class)
            self._error(packet_id, fault.code, fault.error_class, None, fault.retry_after_ms)
            return
        if self.draining and ConnectionState.DRAINING not in packets.REQUESTS[packet.METHOD_ID].allowed:
            self._note_refused(packet, ErrorCode.SHUTTING_DOWN, ErrorClass.RETRYABLE)
            raise RefusalError(ErrorCode.SHUTTING_DOWN)
        self._execute(packet_id, packet)

    def _execute(self, packet_id: int, packet: Any) -> None:
        if self.awaits_login and not isinstance(packet, (packets.Authenticate, packets.Ping)):
            raise RefusalError(ErrorCode.NOT_AUTHENTICATED)
        if not isinstance(packet, _BEFORE_IDENTITY):
            if self.client is None:
                raise RefusalError(ErrorCode.NOT_IDENTIFIED)
            if not isinstance(packet, packets.CancelRequest):
                self._check_session(packet)
        answer = getattr(self, _handler_name(type(packet).__name__))(packet_id, packet)
        if answer is not None:
            self.output.append(answer.encode(packet_id))
        self.service.wake()

    def _check_session(self, packet: Any) -> None:
        client = self.client
        assert client is not None
        if self.service.clients.get(client.client_id) is not client or client.session != self.session:
            raise RefusalError(ErrorCode.SESSION_FENCED)
        number = getattr(packet, "number", None)
        if number is None:
            return
        if number:
            if number <= self.last_number:
                raise RefusalError(ErrorCode.UNEXPECTED_PACKET)
            remaining = set(self.unconfirmed) - set(packet.confirmed)
            if len(remaining) >= self.service.max_unconfirmed:
                raise RefusalError(ErrorCode.TOO_MANY_UNCONFIRMED)
            self.last_number = number
            self.unconfirmed[number] = 1
        for confirmed in packet.confirmed:
            self._confirm(client.client_id, confirmed)
        if packets.REQUESTS[packet.METHOD_ID].mode is ClientMode.FULL and client.mode is ClientMode.READ_ONLY:
            raise RefusalError(ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION)

    def _confirm(self, client_id: int, number: int) -> None:
        self.unconfirmed.pop(number, None)
        self.refused = {queue: first for queue, first in self.refused.items() if first != number}
        self.service.confirm(client_id, self.session, number)

    def _record(self, packet: Any, results: list[packets.ElementResult]) -> None:
        assert self.client is not None
        if packet.number:
            self.service.operations[self.client.client_id, self.session, packet.number] = (
                packets.OperationResult(self.session, packet.number, packet.METHOD_ID, results)
            )

    # ---------------------------------------------------------------- handlers

    def _on_hello(self, _: int, packet: packets.Hello) -> packets.Packet:
        service = self.service
        self.max_frame = min(packet.max_frame, service.max_frame)
        self.awaits_login = bool(service.passwords)
        return packets.HelloResponse(
            packets.PROTOCOL_MAJOR,
            0,
            1,
            "fake",
            self.max_frame,
            service.idle_limit_ms,
            service.max_unconfirmed,
            ["SCRAM-SHA-256"] if service.passwords else [],
            service.addresses,
            [],
            max_body=service.max_body,
            max_put_elements=service.max_put_elements,
            incarnation=service.incarnation,
        )

    def _on_authenticate(self, _: int, packet: packets.Authenticate) -> packets.Packet:
        if self.scram is None:
            method = scramp.ScramMechanism("SCRAM-SHA-256")
            self.scram = method.make_server(
                lambda name: method.make_auth_info(self.service.passwords.get(name, "unknown"))
            )
            self.scram.set_client_first(packet.data.decode())
            return packets.AuthenticateResponse(self.scram.get_server_first().encode(), False)
        try:
            self.scram.set_client_final(packet.data.decode())
        except scramp.ScramException:
            raise RefusalError(ErrorCode.AUTHENTICATION_FAILED) from None
        self.awaits_login = False
        return packets.AuthenticateResponse(self.scram.get_server_final().encode(), True)

    def _on_ping(self, _: int, __: packets.Ping) -> packets.Packet:
        return packets.Pong()

    def _on_register_client(self, _: int, packet: packets.RegisterClient) -> packets.Packet:
        client = self.service.register(packet.client_name, packet.mode, packet.token, packet.attempt or 0)
        self.client, self.session = client, client.session
        return packets.RegisterClientResponse(client.client_id, client.session, self.service.incarnation)

    def _on_identify_client(self, _: int, packet: packets.IdentifyClient) -> packets.Packet:
        client = self.service.identify(
            packet.client_id,
            packet.client_name,
            packet.token,
            bool(packet.resume),
            packet.attempt or 0,
            packet.mode,
        )
        self.client, self.session = client, client.session
        *page, too_large, denied = self._page((0, 0), (0, 0, 0))
        return packets.IdentifyClientResponse(
            client.client_id,
            client.name,
            client.mode,
            client.session,
            self.service.incarnation,
            1,
            *page,
            too_large=too_large,
            denied=denied,
        )

    def _on_list_unconfirmed(self, _: int, packet: packets.ListUnconfirmed) -> packets.Packet:
        operation, hand_over = packet.after_operation, packet.after_hand_over
        *page, too_large, denied = self._page(
            (operation.session, operation.number), (hand_over.session, hand_over.number, hand_over.message_id)
        )
        return packets.ListUnconfirmedResponse(*page, too_large=too_large, denied=denied)

    def _page(
        self, after_operation: tuple[int, int], after_hand_over: tuple[int, int, int]
    ) -> tuple[Any, ...]:
        """Operations, hand-overs, whether there is more, and hand-overs that are too large or denied."""
        assert self.client is not None
        most = self.service.page_rows
        operations = self.service.unconfirmed_operations(self.client.client_id, after_operation)
        hand_overs = self.service.unconfirmed_hand_overs(self.client.client_id, after_hand_over)
        left = most - min(most, len(operations))
        more = len(operations) > most or len(hand_overs) > left
        held = self.max_frame - LISTED_OVERHEAD
        fitting: list[packets.HandOver] = []
        too_large: list[packets.HandOverRef] = []
        denied: list[packets.HandOverRef] = []
        for each in hand_overs[:left]:
            ref = packets.HandOverRef(each.session, each.number, each.message.message_id)
            if each.message.queue_id in self.service.unreadable:
                denied.append(ref)
            elif len(each.message.body) > held:
                too_large.append(ref)
            else:
                fitting.append(each)
        return operations[:most], fitting, more, too_large or None, denied or None

    def _on_confirm(self, _: int, packet: packets.Confirm) -> packets.Packet:
        assert self.client is not None
        client_id = self.client.client_id
        for number in packet.confirmed:
            self._confirm(client_id, number)
        for operation in packet.earlier:
            self.service.confirm(client_id, operation.session, operation.number)
        for ref in packet.hand_overs:
            self._note(ref)
            self.service.confirm(client_id, ref.session, ref.number, ref.message_id)
        return packets.Success()

    def _on_release(self, _: int, packet: packets.Release) -> packets.Packet:
        assert self.client is not None
        for ref in packet.hand_overs:
            self._note(ref)
            self.service.give_back(self.client.client_id, ref.session, ref.number, ref.message_id)
        return packets.Success()

    def _note(self, ref: packets.HandOverRef) -> None:
        if ref.session == self.session and ref.number in self.unconfirmed:
            self.unconfirmed[ref.number] -= 1
            if self.unconfirmed[ref.number] <= 0:
                del self.unconfirmed[ref.number]

    def _on_cancel_request(self, _: int, packet: packets.CancelRequest) -> packets.Packet:
        for parked in self.service.parked:
            if parked.connection is self and parked.packet_id == packet.packet_id:
                self.service.parked.remove(parked)
                self.answer_read(parked.packet_id, parked.packet, [])
                return packets.CancelRequestResponse(True)
        return packets.CancelRequestResponse(False)

    def _on_delete_client(self, _: int, __: packets.DeleteClient) -> packets.Packet:
        assert self.client is not None
        self.service.delete_client(self.client.client_id)
        self.closing = True
        return packets.Success()

    def _on_create_queue(self, _: int, packet: packets.CreateQueue) -> packets.Packet:
        if any(queue.name == packet.queue_name for queue in self.service.queues.values()):
            self._record(packet, [packets.ElementResult(0, ErrorCode.QUEUE_NAME_NOT_UNIQUE)])
            raise RefusalError(ErrorCode.QUEUE_NAME_NOT_UNIQUE)
        queue_id = self.service.add_queue(packet.queue_name, packet.settings.max_messages)
        self._set_settings(self.service.queues[queue_id], packet.settings)
        self._record(packet, [packets.ElementResult(queue_id, None)])
        return packets.CreateQueueResponse(packets.Queue(queue_id, packet.queue_name))

    def _on_update_queue(self, _: int, packet: packets.UpdateQueue) -> packets.Packet:
        queue = self.service.queues.get(packet.queue_id)
        if queue is None:
            self._record(packet, [packets.ElementResult(0, ErrorCode.QUEUE_NOT_EXISTING)])
            raise RefusalError(ErrorCode.QUEUE_NOT_EXISTING, packet.queue_id)
        if packet.settings.dead_letter_queue:
            self._queue(packet.settings.dead_letter_queue)
        if packet.settings.max_messages is not None:
            queue.max_messages = packet.settings.max_messages or None
        self._set_settings(queue, packet.settings)
        self._record(packet, [packets.ElementResult(0, None)])
        return packets.Success()

    def _set_settings(self, queue: StoredQueue, settings: packets.QueueSettings) -> None:
        for name in queue.settings:
            value = getattr(settings, name)
            if value is not None:
                queue.settings[name] = None if value == 0 and QUEUE_SETTINGS[name].without else value

    def _on_get_queue_settings(self, _: int, packet: packets.GetQueueSettings) -> packets.Packet:
        queue = self._queue(packet.queue_id)
        settings = packets.QueueSettings(max_messages=queue.max_messages, **queue.settings)
        return packets.GetQueueSettingsResponse(settings)

    def _on_get_message_history(self, _: int, packet: packets.GetMessageHistory) -> packets.Packet:
        """Of what is over it knows nothing."""
        ready = [message for queue in self.service.queues.values() for message in queue.messages]
        taken = [message for messages in self.service.deliveries.values() for message in messages]
        for state, messages in (
            (packets.MessageState.READY, ready),
            (packets.MessageState.HANDED_OVER, taken),
        ):
            for message in messages:
                if message.message_id == packet.message_id:
                    return packets.GetMessageHistoryResponse([message.record(state)])
        raise RefusalError(ErrorCode.MESSAGE_NOT_EXISTING, packet.message_id)

    def _on_list_dead_letters(self, _: int, packet: packets.ListDeadLetters) -> packets.Packet:
        """Nothing dies here."""
        if packet.queue_id not in self.service.queues:
            raise RefusalError(ErrorCode.QUEUE_NOT_EXISTING, packet.queue_id)
        return packets.ListDeadLettersResponse([], False)

    def _on_redrive_dead_letters(self, _: int, packet: packets.RedriveDeadLetters) -> packets.Packet:
        self._queue(packet.queue_id)
        self._record(packet, [packets.ElementResult(0, None)])
        return packets.RedriveDeadLettersResponse(0)

    def _on_delete_dead_letters(self, _: int, packet: packets.DeleteDeadLetters) -> packets.Packet:
        self._record(packet, [packets.ElementResult(0, None)])
        return packets.DeleteDeadLettersResponse(0)

    def _on_delete_queue(self, _: int, packet: packets.DeleteQueue) -> packets.Packet:
        if self.service.queues.pop(packet.queue_id, None) is None:
            self._record(packet, [packets.ElementResult(0, ErrorCode.QUEUE_NOT_EXISTING)])
            raise RefusalError(ErrorCode.QUEUE_NOT_EXISTING, packet.queue_id)
        self._record(packet, [packets.ElementResult(0, None)])
        return packets.Success()

    def _on_purge_queue(self, _: int, packet: packets.PurgeQueue) -> packets.Packet:
        queue = self._queue(packet.queue_id)
        removed = len(queue.messages)
        queue.messages.clear()
        self._record(packet, [packets.ElementResult(removed, None)])
        return packets.PurgeQueueResponse(removed)

    def _on_cancel_message(self, _: int, packet: packets.CancelMessage) -> packets.Packet:
        queue = self._queue(packet.queue_id)
        left = [stored for stored in queue.messages if stored.message_id != packet.message_id]
        cancelled = len(left) < len(queue.messages)
        queue.messages[:] = left
        self._record(packet, [packets.ElementResult(int(cancelled), None)])
        return packets.CancelMessageResponse(cancelled)

    def _on_get_queue_statistics(self, _: int, packet: packets.GetQueueStatistics) -> packets.Packet:
        queue = self._queue(packet.queue_id)
        depth, directed = len(queue.messages), sum(1 for stored in queue.messages if stored.receiver_id)
        return packets.GetQueueStatisticsResponse(
            depth=depth,
            directed_depth=directed,
            ready=depth,
            delayed=0,
            backing_off=0,
            keyed=0,
            leased=0,
            dead=0,
            put_total=queue.put_total,
            taken_total=queue.taken_total,
            max_messages=queue.max_messages or 0,
            exact=True,
        )

    def _on_get_queue_id(self, _: int, packet: packets.GetQueueId) -> packets.Packet:
        for queue in self.service.queues.values():
            if queue.name == packet.queue_name:
                return packets.GetQueueIdResponse(queue.queue_id)
        raise RefusalError(ErrorCode.QUEUE_NOT_EXISTING)

    def _on_get_queue_name(self, _: int, packet: packets.GetQueueName) -> packets.Packet:
        return packets.GetQueueNameResponse(self._queue(packet.queue_id).name)

    def _on_get_queues(self, _: int, packet: packets.GetQueues) -> packets.Packet:
        queues = [queue for queue in self.service.queues.values() if queue.queue_id > packet.after_queue_id]
        page = [packets.Queue(queue.queue_id, queue.name) for queue in queues[: packet.limit]]
        return packets.GetQueuesResponse(page, len(queues) > packet.limit)

    def _on_list_queues(self, _: int, packet: packets.ListQueues) -> packets.Packet:
        queues = _listed(self.service.queues, packet.after_queue_id, packet.like)
        page = [
            packets.QueueFigures(queue.queue_id, queue.name, len(queue.messages))
            for queue in queues[: packet.limit]
        ]
        return packets.ListQueuesResponse(page, len(queues) > packet.limit)

    def _on_list_clients(self, _: int, packet: packets.ListClients) -> packets.Packet:
        clients = _listed(self.service.clients, packet.after_client_id, packet.like)
        page = [
            packets.ClientFigures(
                client.client_id,
                client.name,
                client.mode,
                False,
                1_700_000_000_000_000 + client.session,
                sum(len(held) for key, held in self.service.deliveries.items() if key[0] == client.client_id),
                len(self.service.topics.of_client(client.client_id)),
                address="127.0.0.1",
            )
            for client in clients[: packet.limit]
        ]
        return packets.ListClientsResponse(page, len(clients) > packet.limit)

    def _on_list_consumers(self, _: int, packet: packets.ListConsumers) -> packets.Packet:
        """It has no consumers."""
        return packets.ListConsumersResponse([], False)

    def _on_list_middlewares(self, _: int, packet: packets.ListMiddlewares) -> packets.Packet:
        """It is one middleware."""
        started = 1_700_000_000_000_000
        one = packets.MiddlewareFigures(1, "127.0.0.1:1", "fake", started, started, 0)
        page = [one] if packet.after_middleware_id < one.middleware_id else []
        return packets.ListMiddlewaresResponse(page, False)

    def _on_get_active_queues(self, _: int, packet: packets.GetActiveQueues) -> packets.Packet:
        assert self.client is not None
        receivers = (0, self.client.client_id)
        queues = [
            queue
            for queue in self.service.queues.values()
            if queue.queue_id > packet.after_queue_id
            and any(stored.receiver_id in receivers for stored in queue.messages)
        ]
        page = [packets.Queue(queue.queue_id, queue.name) for queue in queues[: packet.limit]]
        return packets.GetActiveQueuesResponse(page, len(queues) > packet.limit)

    def _on_get_messages(self, _: int, packet: packets.GetMessages) -> packets.Packet:
        assert self.client is not None
        queue = self._queue(packet.queue_id)
        messages = [
            stored.packet()
            for stored in queue.messages
            if stored.message_id > packet.after_message_id
            and stored.receiver_id in (0, self.client.client_id)
        ]
        return packets.GetMessagesResponse(messages[: packet.limit], len(messages) > packet.limit)

    def _put(self, packet: Any, queue_id: int, message: packets.NewMessage) -> packets.PutResult:
        """Puts a message, unless the queue refused an earlier put as full and the client does not know."""
        assert self.client is not None
        behind = packet.number and queue_id in self.refused
        result = self.service.put(self.client.client_id, queue_id, message, takes=not behind)
        if result.error is ErrorCode.QUEUE_FULL and packet.number:
            self.refused.setdefault(queue_id, packet.number)
        return result

    def _on_put_message(self, _: int, packet: packets.PutMessage) -> packets.Packet:
        assert self.client is not None
        results = [self._put(packet, queue_id, packet.message) for queue_id in packet.queue_ids]
        self._record(packet, [_recorded(result) for result in results])
        return packets.PutMessageResponse(results)

    def _on_put_messages(self, _: int, packet: packets.PutMessages) -> packets.Packet:
        results = [self._put(packet, element.queue_id, element.message) for element in packet.messages]
        self._record(packet, [_recorded(result) for result in results])
        return packets.PutMessagesResponse(results)

    def _on_read_message(self, packet_id: int, packet: Any) -> None:
        assert self.client is not None
        try:
            taken = self.service.claim(self.client.client_id, packet)
        except RefusalError:
            self.unconfirmed.pop(packet.number, None)
            raise
        if taken or not packet.wait_ms:
            self.answer_read(packet_id, packet, taken)
            return
        forever = packet.wait_ms == FOREVER
        until = float("inf") if forever else self.service.clock() + packet.wait_ms / 1000
        self.service.parked.append(Parked(self, packet_id, packet, until))

    _on_read_response = _on_read_message

    def _queue(self, queue_id: int) -> StoredQueue:
        queue = self.service.queues.get(queue_id)
        if queue is None:
            raise RefusalError(ErrorCode.QUEUE_NOT_EXISTING, queue_id)
        return queue

    # ---------------------------------------------------------------- topics

    def _on_subscribe(self, _: int, packet: packets.Subscribe) -> packets.Packet:
        assert self.client is not None
        try:
            subscription_id = self.service.topics.subscribe(self.client.client_id, packet)
        except TopicRefusalError as refusal:
            self._record(packet, [packets.ElementResult(refusal.related_id or 0, refusal.code)])
            raise
        self._record(packet, [packets.ElementResult(subscription_id, None)])
        return packets.SubscribeResponse(subscription_id)

    def _on_unsubscribe(self, _: int, packet: packets.Unsubscribe) -> packets.Packet:
        assert self.client is not None
        try:
            self.service.topics.unsubscribe(self.client.client_id, packet.topic)
        except TopicRefusalError as refusal:
            self._record(packet, [packets.ElementResult(0, refusal.code)])
            raise
        self._record(packet, [packets.ElementResult(0, None)])
        return packets.Success()

    def _on_delete_topic(self, _: int, packet: packets.DeleteTopic) -> packets.Packet:
        topics = self.service.topics
        topic = topics.topics.get(packet.topic)
        error = ErrorCode.TOPIC_NOT_EXISTING if topic is None else None
        if any(found.topic is topic for found in topics.subscriptions.values()):
            error = ErrorCode.TOPIC_IN_USE
        self._record(packet, [packets.ElementResult(0, error)])
        if error is not None:
            raise RefusalError(error)
        del topics.topics[packet.topic]
        return packets.Success()

    def _on_put_to_topic(self, _: int, packet: packets.PutToTopic) -> packets.Packet:
        assert self.client is not None
        topics, client_id = self.service.topics, self.client.client_id
        results = [topics.put(client_id, packet.topic, message) for message in packet.messages]
        self._record(
            packet,
            [
                packets.ElementResult(-result.number if result.duplicate else result.number, result.error)
                for result in results
            ],
        )
        return packets.PutToTopicResponse(results)

    def _on_get_from_topics(self, packet_id: int, packet: packets.GetFromTopics) -> packets.Packet | None:
        assert self.client is not None
        answer = self.service.topics.get(self.client.client_id, packet)
        if answer.messages or not packet.wait_ms:
            return answer
        until = float("inf") if packet.wait_ms == FOREVER else self.service.clock() + packet.wait_ms / 1000
        self.service.parked.append(Parked(self, packet_id, packet, until))
        return None

    def _retry_get(self, parked: Parked) -> bool:
        assert self.client is not None
        try:
            answer = self.service.topics.get(self.client.client_id, parked.packet)
        except TopicRefusalError as refusal:
            self._error(parked.packet_id, refusal.code, related_id=refusal.related_id)
            return True
        if answer.messages:
            self.output.append(answer.encode(parked.packet_id))
        return bool(answer.messages)

    def _on_confirm_positions(self, _: int, packet: packets.ConfirmPositions) -> packets.Packet:
        assert self.client is not None
        self.service.topics.confirm(self.client.client_id, packet.positions)
        return packets.Success()

    def _on_list_topics(self, _: int, packet: packets.ListTopics) -> packets.Packet:
        topics = {topic.topic_id: topic for topic in self.service.topics.topics.values()}
        return self.service.topics.list_topics(
            _listed(topics, packet.after_topic_id, packet.like), packet.limit
        )

    def _on_list_subscriptions(self, _: int, packet: packets.ListSubscriptions) -> packets.Packet:
        assert self.client is not None
        return self.service.topics.list_subscriptions(self.client.client_id, packet)


def _recorded(result: packets.PutResult) -> packets.ElementResult:
    return packets.ElementResult(-result.message_id if result.duplicate else result.message_id, result.error)


def _listed(rows: dict[int, Any], after_id: int, like: str | None) -> list[Any]:
    """Those behind an id whose name is like this: ``*`` stands for any characters, ``?`` for one."""
    wild = {"*": ".*", "?": "."}
    pattern = "".join(wild.get(each) or re.escape(each) for each in ("*" if like is None else like))
    return [
        rows[row_id]
        for row_id in sorted(rows)
        if row_id > after_id and re.fullmatch(pattern, rows[row_id].name, re.DOTALL)
    ]
