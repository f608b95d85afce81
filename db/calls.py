# Generated from db/procedures by "python -m tools.codegen"; do not edit.
"""The calls of procedures that middlewares make, with the procedures' parameters by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

#: The text of a call with its arguments in the order of its ``$1``, ``$2`` and so on.
Statement = tuple[str, *tuple[Any, ...]]


def ack_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    numbers: Sequence[int | None] | None,
    item_requests: Sequence[int | None] | None,
    consumer_ids: Sequence[int | None] | None,
    lease_ids: Sequence[int | None] | None,
    message_ids: Sequence[int | None] | None,
    confirm_clients: Sequence[int | None] | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
) -> Statement:
    """Acknowledges leased messages for many requests, of many clients, in one transaction: they are done,
    and what is to be kept of them moves into the history. The first to lock a lease decides; one that is
    gone, or another client's, or that an application acknowledges in a transaction that is not over, is
    answered LEASE_LOST."""
    return (
        _TEXTS["ack_batch"],
        client_ids,
        sessions,
        numbers,
        item_requests,
        consumer_ids,
        lease_ids,
        message_ids,
        confirm_clients,
        confirm_sessions,
        confirm_numbers,
    )


def browse_messages(
    *,
    client_id: int | None,
    from_queue: int | None,
    after_message_id: int | None,
    max_rows: int | None,
    max_bytes: int | None,
) -> Statement:
    """Shows the messages of a queue that a client may read, by rising id, without taking them."""
    return _TEXTS["browse_messages"], client_id, from_queue, after_message_id, max_rows, max_bytes


def cancel_message_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    queue_id: int | None,
    message_id: int | None,
    max_probes: int | None,
) -> Statement:
    """Removes a message that waits in a queue, ready, delayed or in a partition."""
    return (
        _TEXTS["cancel_message_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        queue_id,
        message_id,
        max_probes,
    )


def change_consumers(
    *,
    queue_ids: Sequence[int | None] | None,
    consumer_ids: Sequence[int | None] | None,
    slow: Sequence[bool | None] | None,
    paused: Sequence[bool | None] | None,
) -> Statement:
    """Notes that consumers are slow, so that others get their partitions until the queue's window has
    passed, and whether they are paused, so that they are given none."""
    return _TEXTS["change_consumers"], queue_ids, consumer_ids, slow, paused


def claim_batch(
    *,
    queue_ids: Sequence[int | None] | None,
    consumer_ids: Sequence[int | None] | None,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    epochs: Sequence[int | None] | None,
    max_bytes: Sequence[int | None] | None,
    largest: Sequence[int | None] | None,
    idle: Sequence[bool | None] | None,
    slots: Sequence[int | None] | None,
    answer_bytes: int | None,
    waits: bool | None,
) -> Statement:
    """Leases messages to many consumers of many queues in one transaction."""
    return (
        _TEXTS["claim_batch"],
        queue_ids,
        consumer_ids,
        client_ids,
        sessions,
        epochs,
        max_bytes,
        largest,
        idle,
        slots,
        answer_bytes,
        waits,
    )


def confirm_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    confirm_requests: Sequence[int | None] | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    confirm_message_ids: Sequence[int | None] | None,
) -> Statement:
    """Deletes what clients have confirmed, when no other batch carries it."""
    return (
        _TEXTS["confirm_batch"],
        client_ids,
        sessions,
        confirm_requests,
        confirm_sessions,
        confirm_numbers,
        confirm_message_ids,
    )


def create_queue_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    name: str | None,
    settings: str | None,
) -> Statement:
    """Creates a queue."""
    return (
        _TEXTS["create_queue_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        name,
        settings,
    )


def delete_client_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
) -> Statement:
    """Deletes a client."""
    return _TEXTS["delete_client_numbered"], client_id, session, number, confirm_sessions, confirm_numbers


def delete_queue_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    queue_id: int | None,
) -> Statement:
    """Deletes a queue, at once whatever it holds: its messages are removed later, see
    sweep_deleted_queues."""
    return (
        _TEXTS["delete_queue_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        queue_id,
    )


def delete_topic_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    topic: str | None,
) -> Statement:
    """Deletes a topic without subscriptions."""
    return (
        _TEXTS["delete_topic_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        topic,
    )


def end_lock_holders(
    *,
    middleware_id: int | None,
    hold_s: float | None,
    due_pids: Sequence[int | None] | None,
    due_transactions: Sequence[str | None] | None,
) -> Statement:
    """Lists who else holds a lock that middlewares wait for, and ends the sessions that have held one for
    too long."""
    return _TEXTS["end_lock_holders"], middleware_id, hold_s, due_pids, due_transactions


def fetch_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    subscriptions: Sequence[int | None] | None,
    topics: Sequence[str | None] | None,
    max_messages: Sequence[int | None] | None,
    max_bytes: Sequence[int | None] | None,
    confirmed: Sequence[int | None] | None,
    afters: Sequence[int | None] | None,
    position_requests: Sequence[int | None] | None,
    position_subscriptions: Sequence[int | None] | None,
    position_confirmed: Sequence[int | None] | None,
    position_afters: Sequence[int | None] | None,
) -> Statement:
    """Gets messages of topics, for many requests of many clients in one transaction, and moves the
    positions of subscriptions up to what the requests confirm."""
    return (
        _TEXTS["fetch_batch"],
        client_ids,
        sessions,
        subscriptions,
        topics,
        max_messages,
        max_bytes,
        confirmed,
        afters,
        position_requests,
        position_subscriptions,
        position_confirmed,
        position_afters,
    )


def find_users(*, names: Sequence[str | None] | None, user_ids: Sequence[int | None] | None) -> Statement:
    """Finds users by name or id, with what they log in by and what they may do."""
    return _TEXTS["find_users"], names, user_ids


def get_incarnation() -> Statement:
    """The identity of this database: sessions and numbers mean something within one only."""
    return (_TEXTS["get_incarnation"],)


def get_login_state() -> Statement:
    """Whether there are users, and the secret that middlewares share."""
    return (_TEXTS["get_login_state"],)


def get_message_history(
    *,
    wanted_id: int | None,
    in_queue: int | None,
    asking_client: int | None,
    max_records: int | None,
    max_bytes: int | None,
    max_probes: int | None,
    asking_user: int | None,
    administered: Sequence[str | None] | None,
) -> Statement:
    """Tells what is known of a message: how it and its hand-overs ended, and where it is now."""
    return (
        _TEXTS["get_message_history"],
        wanted_id,
        in_queue,
        asking_client,
        max_records,
        max_bytes,
        max_probes,
        asking_user,
        administered,
    )


def get_queue_id(*, name: str | None) -> Statement:
    """Finds a queue by its name."""
    return _TEXTS["get_queue_id"], name


def get_queue_name(*, queue_id: int | None) -> Statement:
    """Finds a queue's name."""
    return _TEXTS["get_queue_name"], queue_id


def get_queue_names(*, queue_ids: Sequence[int | None] | None) -> Statement:
    """The names of queues, by which rights are decided."""
    return _TEXTS["get_queue_names"], queue_ids


def get_queue_settings(*, queue_id: int | None) -> Statement:
    """Tells the settings of a queue."""
    return _TEXTS["get_queue_settings"], queue_id


def get_sessions(*, client_ids: Sequence[int | None] | None) -> Statement:
    """Which processes have clients now, for people: those that have taken them over from others."""
    return _TEXTS["get_sessions"], client_ids


def get_subscribed_topics(*, client_ids: Sequence[int | None] | None) -> Statement:
    """The topics to which clients subscribe, by which rights are decided."""
    return _TEXTS["get_subscribed_topics"], client_ids


def heartbeat(
    *, own_id: int | None, pids: Sequence[int | None] | None, timeout_s: float | None, latest: int | None
) -> Statement:
    """A middleware's sign of life."""
    return _TEXTS["heartbeat"], own_id, pids, timeout_s, latest


def identify_client(
    *,
    wanted_id: int | None,
    wanted_name: str | None,
    token: bytes | None,
    resume: bool | None,
    attempt: int | None,
    wanted_mode: int | None,
    process: str | None,
    library: str | None,
    address: str | None,
    asking_user: int | None,
    names: Sequence[str | None] | None,
    readable: Sequence[str | None] | None,
) -> Statement:
    """Opens a new session of a client and so fences its session before: a takeover."""
    return (
        _TEXTS["identify_client"],
        wanted_id,
        wanted_name,
        token,
        resume,
        attempt,
        wanted_mode,
        process,
        library,
        address,
        asking_user,
        names,
        readable,
    )


def join_queue(
    *,
    client_id: int | None,
    session: int | None,
    middleware_id: int | None,
    queue_id: int | None,
    paused: bool | None,
) -> Statement:
    """Makes a consumer of a queue, which lives as long as the connection that it belongs to."""
    return _TEXTS["join_queue"], client_id, session, middleware_id, queue_id, paused


def keep_leases(
    *,
    consumer_ids: Sequence[int | None] | None,
    lease_ids: Sequence[int | None] | None,
    message_ids: Sequence[int | None] | None,
    begun_ms: Sequence[int | None] | None,
) -> Statement:
    """Has leases hold on that a living consumer has: those that wait there to be begun, from now on;
    those that the application was given, from when it was."""
    return _TEXTS["keep_leases"], consumer_ids, lease_ids, message_ids, begun_ms


def leave_queues(
    *,
    queue_ids: Sequence[int | None] | None,
    consumer_ids: Sequence[int | None] | None,
    counted: Sequence[bool | None] | None,
    begun_ids: Sequence[int | None] | None,
) -> Statement:
    """Ends consumers whose connections left or are gone: what they have goes back to its place."""
    return _TEXTS["leave_queues"], queue_ids, consumer_ids, counted, begun_ids


def list_active_queues(
    *, client_id: int | None, after_id: int | None, max_rows: int | None, visible: Sequence[str | None] | None
) -> Statement:
    """A page of the queues that hold a message which the client may read, by rising id."""
    return _TEXTS["list_active_queues"], client_id, after_id, max_rows, visible


def list_client_figures(
    *,
    after_id: int | None,
    max_rows: int | None,
    pattern: str | None,
    asking_user: int | None,
    visible: Sequence[str | None] | None,
) -> Statement:
    """A page of the clients, by rising id, for people."""
    return _TEXTS["list_client_figures"], after_id, max_rows, pattern, asking_user, visible


def list_consumers(
    *, after_id: int | None, max_rows: int | None, of_queue: int | None, visible: Sequence[str | None] | None
) -> Statement:
    """A page of the consumers, by rising id, for people."""
    return _TEXTS["list_consumers"], after_id, max_rows, of_queue, visible


def list_dead_letters(
    *,
    from_queue: int | None,
    after_message_id: int | None,
    max_rows: int | None,
    max_bytes: int | None,
    asking_client: int | None,
    asking_user: int | None,
    directed: bool | None,
) -> Statement:
    """Shows the dead letters of a queue by rising id."""
    return (
        _TEXTS["list_dead_letters"],
        from_queue,
        after_message_id,
        max_rows,
        max_bytes,
        asking_client,
        asking_user,
        directed,
    )


def list_middlewares(*, after_id: int | None, max_rows: int | None) -> Statement:
    """A page of the running middlewares, by rising id, for people."""
    return _TEXTS["list_middlewares"], after_id, max_rows


def list_queue_figures(
    *, after_id: int | None, max_rows: int | None, pattern: str | None, visible: Sequence[str | None] | None
) -> Statement:
    """A page of the queues, by rising id, with how many messages wait in each."""
    return _TEXTS["list_queue_figures"], after_id, max_rows, pattern, visible


def list_queues(
    *, after_id: int | None, max_rows: int | None, visible: Sequence[str | None] | None
) -> Statement:
    """A page of the queues, by rising id."""
    return _TEXTS["list_queues"], after_id, max_rows, visible


def list_subscriptions(*, of_client: int | None, after_id: int | None, max_rows: int | None) -> Statement:
    """A page of a client's own subscriptions, by rising id."""
    return _TEXTS["list_subscriptions"], of_client, after_id, max_rows


def list_topics(
    *, after_id: int | None, max_rows: int | None, pattern: str | None, visible: Sequence[str | None] | None
) -> Statement:
    """A page of the topics, by rising id."""
    return _TEXTS["list_topics"], after_id, max_rows, pattern, visible


def list_unconfirmed_hand_overs(
    *,
    of_client: int | None,
    current_session: int | None,
    after_session: int | None,
    after_number: int | None,
    after_message_id: int | None,
    max_rows: int | None,
    max_bytes: int | None,
    readable: Sequence[str | None] | None,
) -> Statement:
    """A page of the messages that were handed over to a client and that it has not confirmed."""
    return (
        _TEXTS["list_unconfirmed_hand_overs"],
        of_client,
        current_session,
        after_session,
        after_number,
        after_message_id,
        max_rows,
        max_bytes,
        readable,
    )


def list_unconfirmed_operations(
    *,
    of_client: int | None,
    current_session: int | None,
    after_session: int | None,
    after_number: int | None,
    max_rows: int | None,
) -> Statement:
    """A page of the requests other than reads that a client's sessions executed and the client has not
    confirmed."""
    return (
        _TEXTS["list_unconfirmed_operations"],
        of_client,
        current_session,
        after_session,
        after_number,
        max_rows,
    )


def look_at_clock() -> Statement:
    """The time by the clock of this server."""
    return (_TEXTS["look_at_clock"],)


def measure_users(*, middleware_id: int | None, hold_s: float | None, max_pages: int | None) -> Statement:
    """Measures what the clients of users with such a quota have stored, and tells middlewares of users
    that have reached it or have space again."""
    return _TEXTS["measure_users"], middleware_id, hold_s, max_pages


def nack_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    consumer_ids: Sequence[int | None] | None,
    lease_ids: Sequence[int | None] | None,
    message_ids: Sequence[int | None] | None,
    failed: bool | None,
    delay_ms: int | None,
    begun_ids: Sequence[int | None] | None,
    reason: str | None,
    rejected: bool | None,
) -> Statement:
    """Gives leased messages back to their queues; one that is not the client's any more is answered
    LEASE_LOST."""
    return (
        _TEXTS["nack_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        consumer_ids,
        lease_ids,
        message_ids,
        failed,
        delay_ms,
        begun_ids,
        reason,
        rejected,
    )


def note_clients_seen(*, client_ids: Sequence[int | None] | None) -> Statement:
    """Notes that the connections of temporary clients are open now, see sweep_temporary_clients."""
    return _TEXTS["note_clients_seen"], client_ids


def note_clock_step(*, step_ms: int | None, seen_steps: int | None, last_id: int | None) -> Statement:
    """After the clock of this server was set: moves by as much what was to happen some time after
    something else, so that it happens then."""
    return _TEXTS["note_clock_step"], step_ms, seen_steps, last_id


def notify_puts(
    *,
    middleware_id: int | None,
    queue_ids: Sequence[int | None] | None,
    receiver_ids: Sequence[int | None] | None,
    counts: Sequence[int | None] | None,
) -> Statement:
    """Tells other middlewares of messages that they may have readers for."""
    return _TEXTS["notify_puts"], middleware_id, queue_ids, receiver_ids, counts


def place_staged(*, max_rows: int | None) -> Statement:
    """Places messages that SQL users have put and committed into their queues."""
    return _TEXTS["place_staged"], max_rows


def place_staged_topics(*, max_rows: int | None) -> Statement:
    """Places messages that SQL users have put to topics and committed."""
    return _TEXTS["place_staged_topics"], max_rows


def publish_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    numbers: Sequence[int | None] | None,
    topic_names: Sequence[str | None] | None,
    request_topics: Sequence[int | None] | None,
    element_requests: Sequence[int | None] | None,
    sequences: Sequence[int | None] | None,
    bodies: Sequence[bytes | None] | None,
    confirm_clients: Sequence[int | None] | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    headers: Sequence[str | None] | None,
) -> Statement:
    """Puts messages to topics, for many requests of many clients in one transaction."""
    return (
        _TEXTS["publish_batch"],
        client_ids,
        sessions,
        numbers,
        topic_names,
        request_topics,
        element_requests,
        sequences,
        bodies,
        confirm_clients,
        confirm_sessions,
        confirm_numbers,
        headers,
    )


def purge_queue_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    queue_id: int | None,
    max_rows: int | None,
    removed_before: int | None,
) -> Statement:
    """Removes messages that wait in a queue, for any receiver, a bounded number in each call."""
    return (
        _TEXTS["purge_queue_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        queue_id,
        max_rows,
        removed_before,
    )


def put_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    numbers: Sequence[int | None] | None,
    method_ids: Sequence[int | None] | None,
    element_requests: Sequence[int | None] | None,
    queue_ids: Sequence[int | None] | None,
    receiver_ids: Sequence[int | None] | None,
    priorities: Sequence[int | None] | None,
    contexts: Sequence[int | None] | None,
    bodies: Sequence[bytes | None] | None,
    confirm_clients: Sequence[int | None] | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    dedup_keys: Sequence[str | None] | None,
    delays_ms: Sequence[int | None] | None,
    lives_ms: Sequence[int | None] | None,
    partition_keys: Sequence[str | None] | None,
    middleware_id: int | None,
    headers: Sequence[str | None] | None,
) -> Statement:
    """Puts the messages of many requests, of many clients, into many queues in one transaction. A request
    has one or more elements (a message and a queue)."""
    return (
        _TEXTS["put_batch"],
        client_ids,
        sessions,
        numbers,
        method_ids,
        element_requests,
        queue_ids,
        receiver_ids,
        priorities,
        contexts,
        bodies,
        confirm_clients,
        confirm_sessions,
        confirm_numbers,
        dedup_keys,
        delays_ms,
        lives_ms,
        partition_keys,
        middleware_id,
        headers,
    )


def queue_statistics(*, queue_id: int | None, max_rows: int | None) -> Statement:
    """Counts what a queue holds, and tells what waits for what."""
    return _TEXTS["queue_statistics"], queue_id, max_rows


def ready_queues(*, queue_ids: Sequence[int | None] | None) -> Statement:
    """Which of the queues hold messages, and which are gone: what a middleware asks for its waiting reads
    now and then, because wake-ups are only hints."""
    return _TEXTS["ready_queues"], queue_ids


def recover_leases(
    *,
    queue_ids: Sequence[int | None] | None,
    consumer_ids: Sequence[int | None] | None,
    epochs: Sequence[int | None] | None,
    seen_claims: Sequence[int | None] | None,
) -> Statement:
    """After a claim whose answer got lost: raises the consumers' epochs, so that the claim, if it has not
    been executed yet, will find itself refused, and returns what it has leased."""
    return _TEXTS["recover_leases"], queue_ids, consumer_ids, epochs, seen_claims


def register_client(
    *,
    name: str | None,
    mode: int | None,
    token: bytes | None,
    attempt: int | None,
    temporary: bool | None,
    process: str | None,
    library: str | None,
    address: str | None,
    asking_user: int | None,
) -> Statement:
    """Creates a client with its first session."""
    return (
        _TEXTS["register_client"],
        name,
        mode,
        token,
        attempt,
        temporary,
        process,
        library,
        address,
        asking_user,
    )


def register_interest(*, middleware_id: int | None, queue_ids: Sequence[int | None] | None) -> Statement:
    """Notes that reads wait at a middleware for messages of these queues."""
    return _TEXTS["register_interest"], middleware_id, queue_ids


def register_middleware(*, address: str | None, version: str | None) -> Statement:
    """Makes a middleware known to the others."""
    return _TEXTS["register_middleware"], address, version


def release_batch(
    *,
    client_id: int | None,
    session: int | None,
    sessions: Sequence[int | None] | None,
    numbers: Sequence[int | None] | None,
    message_ids: Sequence[int | None] | None,
) -> Statement:
    """Gives messages that were handed over to a client and are unconfirmed back to their queues, to their
    old place, marked redelivered."""
    return _TEXTS["release_batch"], client_id, session, sessions, numbers, message_ids


def renew_heartbeat(
    *, own_id: int | None, own_pids: Sequence[int | None] | None, timeout_s: float | None, latest: int | None
) -> Statement:
    """The part of heartbeat that touches tables: notes the sign of life and removes those that have given
    none for too long."""
    return _TEXTS["renew_heartbeat"], own_id, own_pids, timeout_s, latest


def return_waiting(
    *,
    consumer_ids: Sequence[int | None] | None,
    lease_ids: Sequence[int | None] | None,
    message_ids: Sequence[int | None] | None,
) -> Statement:
    """Gives back messages that were not begun in time, at consumers that are silent."""
    return _TEXTS["return_waiting"], consumer_ids, lease_ids, message_ids


def settle_letters_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    method_id: int | None,
    queue_id: int | None,
    letter_ids: Sequence[int | None] | None,
    redriving: bool | None,
    max_rows: int | None,
    settled_before: int | None,
) -> Statement:
    """Sends dead letters back to their queue, or deletes them."""
    return (
        _TEXTS["settle_letters_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        method_id,
        queue_id,
        letter_ids,
        redriving,
        max_rows,
        settled_before,
    )


def subscribe_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    topic: str | None,
    max_behind: int | None,
    max_age_ms: int | None,
    drop_lagging: bool | None,
) -> Statement:
    """Subscribes a client to a topic, which is created on its first use."""
    return (
        _TEXTS["subscribe_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        topic,
        max_behind,
        max_age_ms,
        drop_lagging,
    )


def sweep(
    *,
    middleware_id: int | None,
    job: str | None,
    max_rows: int | None,
    hold_s: float | None,
    retention_s: float | None,
    latest: int | None,
    topic_idle_s: float | None,
    unseen_s: float | None,
    audit_days: float | None,
) -> Statement:
    """A bounded turn of a job that one middleware does for all."""
    return (
        _TEXTS["sweep"],
        middleware_id,
        job,
        max_rows,
        hold_s,
        retention_s,
        latest,
        topic_idle_s,
        unseen_s,
        audit_days,
    )


def take_audit(*, max_rows: int | None) -> Statement:
    """Takes what was changed in SQL and is in no file yet, for a middleware that has one."""
    return _TEXTS["take_audit"], max_rows


def take_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    numbers: Sequence[int | None] | None,
    queue_ids: Sequence[int | None] | None,
    max_messages: Sequence[int | None] | None,
    max_bytes: Sequence[int | None] | None,
    confirm_clients: Sequence[int | None] | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    middleware_id: int | None,
) -> Statement:
    """Takes messages for many reads, of many clients, from many queues in one transaction: the highest
    priority first, the oldest first among equals, of any sender; what is for anyone and what is for the
    reader alone form one order."""
    return (
        _TEXTS["take_batch"],
        client_ids,
        sessions,
        numbers,
        queue_ids,
        max_messages,
        max_bytes,
        confirm_clients,
        confirm_sessions,
        confirm_numbers,
        middleware_id,
    )


def take_lost_leases(*, of_middleware: int | None, max_rows: int | None) -> Statement:
    """Tells a middleware which leases of its consumers have run out, once."""
    return _TEXTS["take_lost_leases"], of_middleware, max_rows


def take_selected_batch(
    *,
    client_ids: Sequence[int | None] | None,
    sessions: Sequence[int | None] | None,
    numbers: Sequence[int | None] | None,
    queue_ids: Sequence[int | None] | None,
    max_messages: Sequence[int | None] | None,
    max_bytes: Sequence[int | None] | None,
    confirm_clients: Sequence[int | None] | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    sender_ids: Sequence[int | None] | None,
    modes: Sequence[int | None] | None,
    contexts: Sequence[int | None] | None,
    middleware_id: int | None,
) -> Statement:
    """Takes messages for reads that do not just want what is first: of one sender, by age, or the
    response with a context."""
    return (
        _TEXTS["take_selected_batch"],
        client_ids,
        sessions,
        numbers,
        queue_ids,
        max_messages,
        max_bytes,
        confirm_clients,
        confirm_sessions,
        confirm_numbers,
        sender_ids,
        modes,
        contexts,
        middleware_id,
    )


def topic_numbers(*, topic_ids: Sequence[int | None] | None) -> Statement:
    """How far topics are: what a middleware asks for its waiting gets now and then, because wake-ups are
    only hints."""
    return _TEXTS["topic_numbers"], topic_ids


def touch_leases(
    *,
    client_id: int | None,
    session: int | None,
    consumer_ids: Sequence[int | None] | None,
    lease_ids: Sequence[int | None] | None,
    message_ids: Sequence[int | None] | None,
) -> Statement:
    """Begins the time of leases anew; one that is not the client's any more is answered LEASE_LOST."""
    return _TEXTS["touch_leases"], client_id, session, consumer_ids, lease_ids, message_ids


def unregister_middleware(*, middleware_id: int | None) -> Statement:
    """Takes a middleware that stops off the list, with its interests, and frees its jobs for others."""
    return _TEXTS["unregister_middleware"], middleware_id


def unsubscribe_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    topic: str | None,
) -> Statement:
    """Ends a client's subscription of a topic."""
    return (
        _TEXTS["unsubscribe_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        topic,
    )


def update_queue_numbered(
    *,
    client_id: int | None,
    session: int | None,
    number: int | None,
    confirm_sessions: Sequence[int | None] | None,
    confirm_numbers: Sequence[int | None] | None,
    queue_id: int | None,
    settings: str | None,
) -> Statement:
    """Changes settings of a queue."""
    return (
        _TEXTS["update_queue_numbered"],
        client_id,
        session,
        number,
        confirm_sessions,
        confirm_numbers,
        queue_id,
        settings,
    )


def withdraw_interest(*, middleware_id: int | None, queue_ids: Sequence[int | None] | None) -> Statement:
    """Notes that no reads wait at a middleware for these queues any more."""
    return _TEXTS["withdraw_interest"], middleware_id, queue_ids


def write_audit(*, lines: Sequence[str | None] | None) -> Statement:
    """Keeps lines of a middleware's audit log in the table."""
    return _TEXTS["write_audit"], lines


def call_of(procedure: Callable[..., Statement], behind: Callable[..., Statement] | None = None) -> str:
    """The call of a procedure as a part of a statement.

    Its arguments stand behind those of a call of the procedure ``behind``, if that is given.
    """
    first = 1 if behind is None else 1 + len(inspect.signature(behind).parameters)
    names = enumerate(inspect.signature(procedure).parameters, first)
    return f"telesto.{procedure.__name__}({', '.join(f'{name} => ${number}' for number, name in names)})"


def text_of(procedure: Callable[..., Statement]) -> str:
    """The text of the statements that call a procedure."""
    return f"SELECT * FROM {call_of(procedure)}"


_TEXTS = {
    procedure.__name__: text_of(procedure)
    for procedure in (
        ack_batch,
        browse_messages,
        cancel_message_numbered,
        change_consumers,
        claim_batch,
        confirm_batch,
        create_queue_numbered,
        delete_client_numbered,
        delete_queue_numbered,
        delete_topic_numbered,
        end_lock_holders,
        fetch_batch,
        find_users,
        get_incarnation,
        get_login_state,
        get_message_history,
        get_queue_id,
        get_queue_name,
        get_queue_names,
        get_queue_settings,
        get_sessions,
        get_subscribed_topics,
        heartbeat,
        identify_client,
        join_queue,
        keep_leases,
        leave_queues,
        list_active_queues,
        list_client_figures,
        list_consumers,
        list_dead_letters,
        list_middlewares,
        list_queue_figures,
        list_queues,
        list_subscriptions,
        list_topics,
        list_unconfirmed_hand_overs,
        list_unconfirmed_operations,
        look_at_clock,
        measure_users,
        nack_numbered,
        note_clients_seen,
        note_clock_step,
        notify_puts,
        place_staged,
        place_staged_topics,
        publish_batch,
        purge_queue_numbered,
        put_batch,
        queue_statistics,
        ready_queues,
        recover_leases,
        register_client,
        register_interest,
        register_middleware,
        release_batch,
        renew_heartbeat,
        return_waiting,
        settle_letters_numbered,
        subscribe_numbered,
        sweep,
        take_audit,
        take_batch,
        take_lost_leases,
        take_selected_batch,
        topic_numbers,
        touch_leases,
        unregister_middleware,
        unsubscribe_numbered,
        update_queue_numbered,
        withdraw_interest,
        write_audit,
    )
}

#: The texts of the calls that only read.
READING = frozenset(
    {
        _TEXTS["browse_messages"],
        _TEXTS["find_users"],
        _TEXTS["get_incarnation"],
        _TEXTS["get_login_state"],
        _TEXTS["get_message_history"],
        _TEXTS["get_queue_id"],
        _TEXTS["get_queue_name"],
        _TEXTS["get_queue_names"],
        _TEXTS["get_queue_settings"],
        _TEXTS["get_sessions"],
        _TEXTS["get_subscribed_topics"],
        _TEXTS["list_active_queues"],
        _TEXTS["list_client_figures"],
        _TEXTS["list_consumers"],
        _TEXTS["list_dead_letters"],
        _TEXTS["list_middlewares"],
        _TEXTS["list_queue_figures"],
        _TEXTS["list_queues"],
        _TEXTS["list_subscriptions"],
        _TEXTS["list_topics"],
        _TEXTS["queue_statistics"],
        _TEXTS["ready_queues"],
        _TEXTS["topic_numbers"],
    }
)
