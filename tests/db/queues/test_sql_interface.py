"""What SQL users may call: staged puts and their placing, transactional reads, administration."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from enum import IntEnum
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from procedure_calls import Calls, until_blocked
from telesto.db import schema
from telesto.middleware.common.settings import ServerSettings
from telesto.protocol.queue_settings import QUEUE_SETTINGS

FULL, READ_ONLY = 1, 2
PLACE = "SELECT queue_ids, receiver_ids, counts FROM telesto.place_staged(%s)"
WAITING = "SELECT convert_from(body, 'UTF8') FROM telesto.messages WHERE queue_id = %s ORDER BY message_id"
STAGED = "SELECT convert_from(body, 'UTF8') FROM telesto.staged_messages ORDER BY staged_id"
# One message through the middlewares' procedure, unrecorded; true when the queue was full.
PUT_ONE = """
SELECT errors IS NOT NULL FROM telesto.put_batch(
    ARRAY[%s]::bigint[], '{1}', '{0}', '{49}', '{1}', ARRAY[%s]::bigint[], '{0}', '{5}', '{NULL}',
    ARRAY[convert_to(%s, 'UTF8')], '{}', '{}', '{}')
"""
SETTINGS_OF = "SELECT (telesto.get_queue_settings(%s)).settings"
HELD_LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"


class Session:
    """One connection of a SQL user, in autocommit unless `transaction` says otherwise."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.transaction = self.connection.transaction

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def value(self, statement: str, *parameters: Any) -> Any:
        row = self.connection.execute(statement.encode(), parameters).fetchone()
        assert row is not None
        return row[0]

    def column(self, statement: str, *parameters: Any) -> list[Any]:
        return [row[0] for row in self.connection.execute(statement.encode(), parameters)]

    def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement.encode(), parameters).fetchall()

    def client(self, name: str, mode: int = FULL) -> int:
        return int(self.value("SELECT telesto.request_id(%s, %s)", name, mode))

    def queue(self, name: str, max_messages: int | None = None) -> int:
        return int(self.value("SELECT telesto.create_queue(%s, %s)", name, max_messages))

    def put(self, sender: int, queue: int, text: str, **options: int) -> int:
        names = "".join(f", {name} => %s" for name in options)
        statement = f"SELECT telesto.put_message(%s, %s, convert_to(%s, 'UTF8'){names})"
        return int(self.value(statement, sender, queue, text, *options.values()))

    def place(self, max_rows: int = 1000) -> dict[tuple[int, int], int]:
        """Place staged rows; return how many messages each (queue, receiver) got."""
        [found] = self.rows(PLACE, max_rows)
        keys = zip(found["queue_ids"], found["receiver_ids"], strict=True)
        return dict(zip(keys, found["counts"], strict=True))

    def waiting(self, queue: int) -> list[str]:
        return self.column(WAITING, queue)

    def staged(self) -> list[str]:
        return self.column(STAGED)

    def read(self, kind: str, *parameters: int) -> str | None:
        marks = ", ".join(["%s"] * len(parameters))
        statement = f"SELECT convert_from(body, 'UTF8') FROM telesto.read_{kind}({marks})"
        found = self.column(statement, *parameters)
        assert len(found) <= 1
        return found[0] if found else None


@pytest.fixture
def user(database_url: str) -> Iterator[Session]:
    session = Session(database_url)
    yield session
    session.connection.close()
    assert schema.check(database_url) == []


@pytest.fixture
def other(database_url: str) -> Iterator[Session]:
    session = Session(database_url)
    yield session
    session.connection.close()


class TestQueueSettings:
    def test_are_given_to_a_new_queue_and_changed(self, user: Session) -> None:
        queue = int(user.value("SELECT telesto.create_queue('small', max_messages => 2)"))
        shown = "SELECT (telesto.get_queue_settings(%s)).settings -> 'max_messages'"
        assert user.value(shown, queue) == 2
        user.value("SELECT telesto.update_queue(%s, max_messages => 0)", queue)
        assert user.value(shown, queue) is None

    def test_every_setting_can_be_given_and_taken_away(self, user: Session) -> None:
        morgue = user.queue("morgue")
        given, shown, without = [], {}, []
        for name, setting in QUEUE_SETTINGS.items():
            if setting.unit == "ms":
                given.append(f"{setting.client_name} => interval '{setting.least} ms'")
            elif setting.unit == "queue":
                given.append(f"{name} => 'morgue'")
            elif issubclass(setting.type, IntEnum):
                given.append(f"{name} => 'full'")
            else:
                given.append(f"{name} => {not setting.default if setting.type is bool else setting.least}")
            shown[name] = {"dead_letter_queue": morgue, "bury_expired": True, "history": "full"}.get(
                name, setting.least
            )
            if setting.without:
                without.append(
                    f"{setting.client_name} => {repr('') if setting.unit == 'queue' else repr('0')}"
                )
        for call in ("create_queue('one', ", "declare_queue('two', "):
            queue = user.value(f"SELECT telesto.{call}{', '.join(given)})")
            assert user.value(SETTINGS_OF, queue) == shown
            user.value(f"SELECT telesto.update_queue(%s, {', '.join(without)})", queue)
            left = user.value(SETTINGS_OF, queue)
            assert left == shown | {name: None for name, setting in QUEUE_SETTINGS.items() if setting.without}

    def test_are_declared_any_number_of_times(self, user: Session, other: Session) -> None:
        declare = "SELECT telesto.declare_queue('orders', lease => interval '2 minutes', max_messages => 7)"
        queue = user.value(declare)
        assert user.value(declare) == user.value("SELECT telesto.declare_queue('orders')") == queue
        user.value("SELECT telesto.update_queue(%s, lease => '1 minute', max_attempts => 9)", queue)
        with pytest.raises(psycopg.Error, match="lease 00:01:00, not 00:02:00; update_settings => true"):
            other.value(declare)
        assert other.value(declare.replace(" => 7)", " => 7, update_settings => true)")) == queue
        left = user.value(SETTINGS_OF, queue)
        assert (left["lease_ms"], left["max_messages"], left["max_attempts"]) == (120_000, 7, 9)

    def test_two_declare_a_queue_at_once(self, user: Session, other: Session, calls: Calls) -> None:
        declare = "SELECT telesto.declare_queue('orders', max_attempts => 3)"
        with ThreadPoolExecutor(1) as executor:
            with user.transaction():
                queue = user.value(declare)
                late = executor.submit(other.value, declare)
                until_blocked(calls, other)
            assert late.result(60) == queue

    def test_a_change_that_is_rolled_back_never_was(self, user: Session) -> None:
        queue = user.queue("small", 2)
        with user.transaction(force_rollback=True):
            user.value("SELECT telesto.update_queue(%s, max_messages => 9)", queue)
        assert user.value("SELECT (telesto.get_queue_settings(%s)).settings ->> 'max_messages'", queue) == "2"


class TestStaging:
    def test_a_put_waits_in_staging_until_it_is_placed(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        user.put(alice, orders, "hello")
        assert user.staged() == ["hello"]
        assert user.waiting(orders) == []
        assert user.place() == {(orders, 0): 1}
        assert user.staged() == []
        assert user.waiting(orders) == ["hello"]

    def test_all_that_was_given_arrives(self, user: Session) -> None:
        alice, bob, orders = user.client("alice"), user.client("bob"), user.queue("orders")
        user.put(alice, orders, "hello", priority=9, receiver_id=bob, context=-7)
        user.place()
        [message] = user.rows("SELECT * FROM telesto.messages")
        assert message["sender_id"] == alice
        assert message["receiver_id"] == bob
        assert message["priority"] == 9
        assert message["context"] == -7
        assert message["attempt"] == 0
        assert message["redelivered"] is False
        assert bytes(message["body"]) == b"hello"

    @pytest.mark.parametrize("options", ["", ", delay => '1 minute'", ", partition_key => 'k'"])
    def test_headers_arrive_wherever_it_is_placed(self, user: Session, options: str) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        put = f"SELECT telesto.put_message(%s, %s, 'x', headers => %s::jsonb{options})"
        for headers in ('{"tenant": "north", "note": ""}', "{}", None):
            user.value(put, alice, orders, headers)
        user.place()
        found = user.column(
            "SELECT headers FROM (SELECT message_id, headers FROM telesto.messages UNION ALL"
            " SELECT message_id, headers FROM telesto.delayed_messages UNION ALL"
            " SELECT message_id, headers FROM telesto.keyed_messages) AS message ORDER BY message_id"
        )
        assert found == [{"tenant": "north", "note": ""}, None, None]

    def test_headers_are_read_and_shown(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        put = "SELECT * FROM telesto.put_messages(%s, ARRAY[%s]::bigint[], 'x', headers => %s)"
        user.value(put, alice, orders, '{"tenant": "north"}')
        user.place()
        for reading in ("get_messages_from_queue", "read_message_by_priority"):
            [message] = user.rows(f"SELECT * FROM telesto.{reading}(%s, %s)", alice, orders)
            assert message["headers"] == {"tenant": "north"}

    def test_headers_count_as_bytes_of_the_body(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        user.connection.execute("UPDATE telesto.installation SET max_body_bytes = 100")
        put = (
            "SELECT telesto.put_message(%s, %s, convert_to(repeat('x', %s), 'UTF8'),"
            ' headers => \'{"ab": "c"}\')'
        )
        user.value(put, alice, orders, 77)
        with pytest.raises(psycopg.Error, match="101 bytes of body and headers") as caught:
            user.value(put, alice, orders, 78)
        assert caught.value.sqlstate == "TL026"

    def test_a_rolled_back_put_never_was(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        with user.transaction(force_rollback=True):
            user.put(alice, orders, "never")
        user.place()
        assert user.waiting(orders) == []

    def test_an_uncommitted_put_is_not_placed_and_a_late_commit_is_not_skipped(
        self, user: Session, other: Session
    ) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        with other.transaction():
            other.put(alice, orders, "early id, late commit")
            user.put(alice, orders, "late id, early commit")
            assert user.place() == {(orders, 0): 1}
            assert user.waiting(orders) == ["late id, early commit"]
        assert user.place() == {(orders, 0): 1}
        assert user.waiting(orders) == ["late id, early commit", "early id, late commit"]

    def test_an_open_transaction_holds_no_lock_of_queue_or_client(
        self, user: Session, other: Session
    ) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        with other.transaction():
            other.put(alice, orders, "open")
            assert user.value(HELD_LOCKS, other.pid) == 0
            user.put(alice, orders, "passes")
            assert user.place() == {(orders, 0): 1}
            assert user.read("message_by_priority", alice, orders) == "passes"
            assert user.value("SELECT error IS NULL FROM telesto.identify_client(%s, NULL)", alice)

    def test_the_rows_of_a_transaction_keep_their_order(self, user: Session, other: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        with user.transaction(), other.transaction():
            for number in range(20):
                user.put(alice, orders, f"a{number}")
                other.put(alice, orders, f"b{number}")
        while user.place(max_rows=7):
            pass
        placed = user.waiting(orders)
        assert [text for text in placed if text[0] == "a"] == [f"a{number}" for number in range(20)]
        assert [text for text in placed if text[0] == "b"] == [f"b{number}" for number in range(20)]

    def test_a_body_is_bounded_by_the_setting(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        user.value("UPDATE telesto.installation SET max_body_bytes = 10 RETURNING 1")
        user.put(alice, orders, "ten bytes!")
        for put in (
            "put_message(%s, %s, 'eleven byte')",
            "put_messages(%s, ARRAY[%s]::bigint[], 'eleven byte')",
        ):
            with pytest.raises(
                psycopg.Error, match="11 bytes of body and headers are too long: 10 "
            ) as caught:
                user.value(f"SELECT telesto.{put}", alice, orders)
            assert caught.value.sqlstate == "TL026"
        assert user.staged() == ["ten bytes!"]

    def test_a_body_may_be_as_long_as_a_middleware_of_default_settings_accepts(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        longest = ServerSettings.model_fields["max_body_bytes"].default
        put = "SELECT telesto.put_message(%s, %s, convert_to(repeat('x', %s), 'UTF8'))"
        user.value(put, alice, orders, longest)
        with pytest.raises(psycopg.Error, match=f"{longest} are allowed") as caught:
            user.value(put, alice, orders, longest + 1)
        assert caught.value.sqlstate == "TL026"

    def test_one_message_into_several_queues(self, user: Session) -> None:
        alice, one, two = user.client("alice"), user.queue("one"), user.queue("two")
        taken = user.rows("SELECT * FROM telesto.put_messages(%s, %s, 'x')", alice, [two, one, one, 12345])
        assert sorted(row["queue_id"] for row in taken) == [one, two]
        assert user.place() == {(one, 0): 1, (two, 0): 1}

    def test_wake_ups_are_counted_per_queue_and_receiver(self, user: Session) -> None:
        alice, one, two = user.client("alice"), user.queue("one"), user.queue("two")
        for receiver in (0, 0, alice, 4711):
            user.put(alice, one, "x", receiver_id=receiver)
        user.put(alice, two, "x")
        assert user.place() == {(one, 0): 2, (one, alice): 1, (one, 4711): 1, (two, 0): 1}


class TestPlacing:
    def test_a_full_queue_lets_its_rows_wait_and_holds_up_nobody(self, user: Session) -> None:
        alice, small, large = user.client("alice"), user.queue("small", 2), user.queue("large")
        for number in range(5):
            user.put(alice, small, f"s{number}")
        user.put(alice, large, "l")
        assert user.place(max_rows=2) == {(small, 0): 1, (large, 0): 1}
        assert user.place() == {(small, 0): 1}
        assert user.place() == {}
        assert user.staged() == ["s2", "s3", "s4"]
        assert user.read("message_by_priority", alice, small) == "s0"
        assert user.place() == {(small, 0): 1}
        assert user.waiting(small) == ["s1", "s2"]

    def test_many_full_queues_do_not_hide_one_with_space(self, user: Session) -> None:
        alice = user.client("alice")
        full = [user.queue(f"full {number}", 1) for number in range(300)]
        for queue in full:
            user.put(alice, queue, "fits")
        while user.place():
            pass
        for queue in full:
            user.put(alice, queue, "waits")
        last = user.queue("last")
        user.put(alice, last, "goes")
        assert user.place() == {(last, 0): 1}

    def test_the_longest_waiting_go_first_when_not_all_can(self, user: Session) -> None:
        alice = user.client("alice")
        queues = [user.queue(f"queue {number}") for number in range(3)]
        for queue in reversed(queues):
            user.put(alice, queue, "x")
        assert user.place(max_rows=1) == {(queues[2], 0): 1}
        assert user.place(max_rows=2) == {(queues[0], 0): 1, (queues[1], 0): 1}

    def test_rows_of_a_deleted_queue_go_with_it(self, user: Session) -> None:
        alice, doomed, kept = user.client("alice"), user.queue("doomed"), user.queue("kept")
        user.put(alice, doomed, "gone")
        user.put(alice, kept, "stays")
        user.value("SELECT telesto.delete_queue(%s)", doomed)
        assert user.place() == {(kept, 0): 1}
        assert user.staged() == []

    def test_two_placers_never_place_a_row_twice_and_keep_the_order(
        self, user: Session, other: Session, database_url: str
    ) -> None:
        alice = user.client("alice")
        queues = [user.queue(f"queue {number}") for number in range(4)]
        with user.transaction():
            for number in range(400):
                user.put(alice, queues[number % 4], str(number))

        def drain() -> None:
            session = Session(database_url)
            while session.value("SELECT EXISTS (SELECT FROM telesto.staged_messages)"):
                session.place(max_rows=10)
            session.connection.close()

        threads = [Thread(target=drain) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index, queue in enumerate(queues):
            assert user.waiting(queue) == [str(number) for number in range(index, 400, 4)]

    def test_beside_the_batches_of_a_middleware_and_readers(self, user: Session, database_url: str) -> None:
        alice, orders = user.client("alice"), user.queue("orders", 50)
        each = 300
        seen: list[str] = []
        failed = Event()

        def stage(session: Session) -> None:
            for number in range(each):
                session.put(alice, orders, f"staged {number}")

        def put(session: Session) -> None:
            for number in range(each):
                while session.value(PUT_ONE, alice, orders, f"put {number}") and not failed.is_set():
                    pass  # full

        def place(session: Session) -> None:
            while len(seen) < 2 * each and not failed.is_set():
                session.place(max_rows=9)

        def read(session: Session) -> None:
            while len(seen) < 2 * each and not failed.is_set():
                if text := session.read("message_by_timestamp", alice, orders):
                    seen.append(text)

        def run(work: Callable[[Session], None]) -> None:
            session = Session(database_url)
            with session.connection:
                work(session)

        with ThreadPoolExecutor(max_workers=5) as executor:
            tasks = [executor.submit(run, work) for work in (stage, put, place, place, read)]
            finished, _ = wait(tasks, return_when=FIRST_EXCEPTION)
            if any(task.exception() for task in finished):
                failed.set()
        assert [task.exception() for task in tasks] == [None] * len(tasks)
        for kind in ("staged", "put"):
            assert [text for text in seen if text.startswith(kind)] == [f"{kind} {n}" for n in range(each)]

    def test_a_second_placer_passes_over_the_queues_of_the_first(self, user: Session, other: Session) -> None:
        alice, one, two = user.client("alice"), user.queue("one"), user.queue("two")
        user.put(alice, one, "1")
        with other.transaction():
            assert other.place() == {(one, 0): 1}
            user.put(alice, one, "2")
            user.put(alice, two, "3")
            assert user.place() == {(two, 0): 1}
        assert user.place() == {(one, 0): 1}
        assert user.waiting(one) == ["1", "2"]

    def test_placing_needs_a_snapshot_that_advances(self, user: Session) -> None:
        user.connection.execute("SET default_transaction_isolation = 'repeatable read'")
        with pytest.raises(psycopg.errors.InvalidTransactionState):
            user.place()

    def test_puts_need_none(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        user.connection.execute("SET default_transaction_isolation = 'serializable'")
        user.put(alice, orders, "x")
        user.connection.execute("RESET default_transaction_isolation")
        assert user.place() == {(orders, 0): 1}


class TestReading:
    @pytest.fixture
    def filled(self, user: Session) -> tuple[int, int, int]:
        """Give (alice, bob, a queue with messages of both)."""
        alice, bob, orders = user.client("alice"), user.client("bob", READ_ONLY), user.queue("orders")
        carol = user.client("carol")
        for text, options in (
            ("low", {"priority": 2}),
            ("high", {"priority": 8}),
            ("high too", {"priority": 8}),
            ("for bob", {"priority": 5, "receiver_id": bob}),
            ("answer", {"priority": 1, "receiver_id": bob, "context": 42}),
        ):
            user.put(alice, orders, text, **options)
        user.put(carol, orders, "of carol", priority=1)
        user.place()
        return alice, bob, orders

    def test_by_priority(self, user: Session, filled: tuple[int, int, int]) -> None:
        _, bob, orders = filled
        read = [user.read("message_by_priority", bob, orders) for _ in range(7)]
        assert read == ["high", "high too", "for bob", "low", "answer", "of carol", None]

    def test_by_age(self, user: Session, filled: tuple[int, int, int]) -> None:
        _, bob, orders = filled
        read = [user.read("message_by_timestamp", bob, orders) for _ in range(7)]
        assert read == ["low", "high", "high too", "for bob", "answer", "of carol", None]

    def test_a_reader_never_gets_what_is_for_another(
        self, user: Session, filled: tuple[int, int, int]
    ) -> None:
        alice, _, orders = filled
        read = [user.read("message_by_priority", alice, orders) for _ in range(5)]
        assert read == ["high", "high too", "low", "of carol", None]

    def test_of_one_sender(self, user: Session, filled: tuple[int, int, int]) -> None:
        alice, bob, orders = filled
        carol = user.value("SELECT client_id FROM telesto.clients WHERE name = 'carol'")
        assert user.read("message_by_priority", bob, orders, carol) == "of carol"
        assert user.read("message_by_timestamp", bob, orders, carol) is None
        assert user.read("message_by_timestamp", bob, orders, alice) == "low"
        assert user.read("message_by_priority", bob, orders) == "high"

    def test_a_response(self, user: Session, filled: tuple[int, int, int]) -> None:
        alice, bob, orders = filled
        assert user.read("response_message", bob, orders, 41) is None
        assert user.read("response_message", alice, orders, 42) is None
        assert user.read("response_message", bob, orders, 42) == "answer"
        assert user.read("response_message", bob, orders, 42) is None

    def test_all_columns(self, user: Session, filled: tuple[int, int, int]) -> None:
        alice, bob, orders = filled
        [message] = user.rows("SELECT * FROM telesto.read_response_message(%s, %s, 42)", bob, orders)
        assert {name: message[name] for name in message if name not in ("message_id", "time_of_arrival")} == {
            "queue_id": orders,
            "sender_id": alice,
            "receiver_id": bob,
            "priority": 1,
            "attempt": 1,
            "redelivered": False,
            "context": 42,
            "body": b"answer",
            "headers": None,
        }

    def test_a_rollback_puts_it_back(self, user: Session, filled: tuple[int, int, int]) -> None:
        _, bob, orders = filled
        with user.transaction(force_rollback=True):
            assert user.read("message_by_priority", bob, orders) == "high"
            assert user.read("message_by_priority", bob, orders) == "high too"
        assert user.read("message_by_priority", bob, orders) == "high"

    def test_it_holds_the_take_lock_and_no_client_lock(
        self, user: Session, other: Session, filled: tuple[int, int, int]
    ) -> None:
        _, bob, orders = filled
        with other.transaction():
            other.read("message_by_priority", bob, orders)
            keys = user.column(
                "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks "
                "WHERE locktype = 'advisory' AND pid = %s",
                other.pid,
            )
            assert keys == [user.value("SELECT telesto.take_lock_key(%s)", orders)]
            assert user.value("SELECT error IS NULL FROM telesto.identify_client(%s, NULL)", bob)

    def test_a_second_reader_waits_for_the_first_transaction(
        self, user: Session, other: Session, filled: tuple[int, int, int]
    ) -> None:
        _, bob, orders = filled
        with other.transaction():
            assert other.read("message_by_priority", bob, orders) == "high"
            user.connection.execute("SET lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                user.read("message_by_priority", bob, orders)
        assert user.read("message_by_priority", bob, orders) == "high too"

    def test_interleaved_with_puts_below_and_above(self, user: Session) -> None:
        """Lower bounds learned by one kind of read never hide a message from another."""
        alice, orders = user.client("alice"), user.queue("orders")
        for turn in range(40):
            user.put(alice, orders, f"{turn}a", priority=1 + turn % 10)
            user.put(alice, orders, f"{turn}b", priority=10 - turn % 10, receiver_id=alice * (turn % 2))
            user.place()
            user.read("message_by_priority" if turn % 3 else "message_by_timestamp", alice, orders)
        seen = set()
        while text := user.read("message_by_priority", alice, orders):
            seen.add(text)
        assert len(seen) == 40
        assert user.waiting(orders) == []


class TestAdministration:
    def test_identify_tells_who_a_client_is_and_opens_no_session(self, user: Session) -> None:
        alice = user.client("alice", READ_ONLY)
        before = user.value("SELECT session FROM telesto.clients WHERE client_id = %s", alice)
        [found] = user.rows("SELECT name, mode FROM telesto.identify(%s)", alice)
        assert found == {"name": "alice", "mode": READ_ONLY}
        assert user.value("SELECT session FROM telesto.clients WHERE client_id = %s", alice) == before

    def test_a_client_is_found_by_its_name_and_opens_no_session(self, user: Session) -> None:
        alice = user.client("alice")
        before = user.rows("SELECT * FROM telesto.clients")
        find = "SELECT error, client_id FROM telesto.get_client_id(%s)"
        assert user.rows(find, "alice") == [{"error": None, "client_id": alice}]
        for nobody in ("Alice", "", None):
            assert user.rows(find, nobody) == [{"error": 5, "client_id": None}]
        assert user.rows("SELECT * FROM telesto.clients") == before

    def test_active_queues_are_those_with_a_message_for_the_client(self, user: Session) -> None:
        alice, bob = user.client("alice"), user.client("bob")
        common, for_bob, _ = user.queue("common"), user.queue("for bob"), user.queue("empty")
        user.put(alice, common, "x")
        user.put(alice, for_bob, "x", receiver_id=bob)
        user.place()
        active = "SELECT name FROM telesto.get_active_queues(%s)"
        assert user.column(active, alice) == ["common"]
        assert user.column(active, bob) == ["common", "for bob"]
        assert user.column("SELECT name FROM telesto.get_active_queues(%s, %s)", bob, common) == ["for bob"]
        assert user.column("SELECT name FROM telesto.get_active_queues(%s, 0, 1)", bob) == ["common"]

    def test_looking_at_messages_takes_none(self, user: Session) -> None:
        alice, bob, orders = user.client("alice"), user.client("bob"), user.queue("orders")
        for text, receiver in (("1", 0), ("2", bob), ("3", 0), ("4", alice)):
            user.put(alice, orders, text, receiver_id=receiver)
        user.place()
        look = "SELECT convert_from(body, 'UTF8') FROM telesto.get_messages_from_queue"
        assert user.column(f"{look}(%s, %s)", bob, orders) == ["1", "2", "3"]
        assert user.column(f"{look}(%s, %s, max_rows => 2)", bob, orders) == ["1", "2"]
        first = user.value("SELECT min(message_id) FROM telesto.messages")
        assert user.column(f"{look}(%s, %s, %s)", bob, orders, first) == ["2", "3"]
        assert user.waiting(orders) == ["1", "2", "3", "4"]

    def test_names_and_ids(self, user: Session) -> None:
        orders = user.queue("orders")
        assert user.value("SELECT queue_id FROM telesto.get_queue_id('orders')") == orders
        assert user.value("SELECT queue_name FROM telesto.get_queue_name(%s)", orders) == "orders"
        assert user.column("SELECT name FROM telesto.list_queues(0, 10)") == ["orders"]

    def test_deleting_a_client_gives_back_what_it_holds(self, user: Session) -> None:
        alice, bob, orders = user.client("alice"), user.client("bob"), user.queue("orders")
        user.put(alice, orders, "held")
        user.place()
        take = (
            "SELECT message_id FROM telesto.take_batch(ARRAY[%s]::bigint[], '{1}', '{1}', "
            "ARRAY[%s]::bigint[], '{1}', '{1000}', '{}', '{}', '{}')"
        )
        assert len(user.column(take, bob, orders)) == 1
        assert user.waiting(orders) == []
        user.value("SELECT telesto.delete_client(%s)", bob)
        [message] = user.rows("SELECT redelivered, body FROM telesto.messages")
        assert message == {"redelivered": True, "body": b"held"}
        assert user.column("SELECT name FROM telesto.clients") == ["alice"]

    def test_a_client_at_work_is_not_deleted_under_its_hands(self, user: Session, other: Session) -> None:
        alice = user.client("alice")
        with other.transaction():
            other.value("SELECT pg_advisory_xact_lock_shared(telesto.client_lock_key(%s))", alice)
            with pytest.raises(psycopg.Error, match=f"client {alice}") as caught:
                user.value("SELECT telesto.delete_client(%s)", alice)
            assert caught.value.sqlstate == "TL035"
        user.value("SELECT telesto.delete_client(%s)", alice)

    def test_deleting_a_queue_is_part_of_the_transaction(self, user: Session) -> None:
        alice, orders = user.client("alice"), user.queue("orders")
        user.put(alice, orders, "x")
        user.place()
        with user.transaction(force_rollback=True):
            user.value("SELECT telesto.delete_queue(%s)", orders)
        assert user.read("message_by_priority", alice, orders) == "x"
        user.value("SELECT telesto.delete_queue(%s)", orders)
        assert user.column("SELECT name FROM telesto.queues") == []

    def test_creating_a_queue_is_part_of_the_transaction(self, user: Session) -> None:
        with user.transaction(force_rollback=True):
            user.queue("orders")
        assert user.column("SELECT name FROM telesto.queues") == []

    @pytest.mark.parametrize(
        ("call", "sqlstate", "words"),
        [
            ("request_id('alice')", "TL006", "'alice'"),
            ("request_id('')", "TL012", "1 to 255"),
            ("request_id(NULL)", "TL012", "1 to 255"),
            ("request_id(repeat('x', 256))", "TL012", "1 to 255"),
            ("request_id(E'a\\u0085b')", "TL012", "as U.0085"),
            ("request_id('bob', 3)", "TL012", "mode 3"),
            ("identify(99)", "TL005", "client 99"),
            ("create_queue('orders')", "TL004", "'orders'"),
            ("create_queue(E'a\\nb')", "TL012", "as U.000A"),
            ("create_queue(E'a\\u202eb')", "TL012", "as U.202E"),
            ("create_queue(E'a\\U000E0041b')", "TL012", "as U.E0041"),
            ("create_queue('bounded', -1)", "TL012", "max_messages -1 is not between 0 and"),
            (
                "create_queue('other', lease => '99 ms')",
                "TL012",
                "lease 00:00:00.099 is not between 00:00:00.1 and 1 day",
            ),
            ("create_queue('other', history => 'some')", "TL012", "some"),
            ("create_queue('other', dead_letter_queue => 'nowhere')", "TL007", "'nowhere' for dead letters"),
            ("update_queue(1)", "TL012", "no setting to change"),
            ("update_queue(1, max_attempts => 0)", "TL012", "max_attempts 0 is not between 1 and 1000000"),
            ("update_queue(1, dead_letter_queue => 'orders')", "TL012", "would come back"),
            ("update_queue(99, max_messages => 1)", "TL007", "queue 99"),
            ("update_queue(NULL, max_messages => 1)", "TL007", "queue NULL"),
            ("declare_queue('')", "TL012", "1 to 255"),
            (
                "declare_queue('orders', lease => '1 hour', max_messages => 5)",
                "TL012",
                "queue 'orders' has lease 00:00:30, not 01:00:00, max_messages none, not 5; update_settings",
            ),
            ("put_message(99, 1, 'x')", "TL005", "client 99"),
            ("put_message(2, 1, 'x')", "TL013", "client 2"),
            ("put_message(1, 99, 'x')", "TL007", "queue 99"),
            ("put_message(1, NULL, 'x')", "TL007", "queue NULL"),
            ("put_message(1, 1, NULL)", "TL012", "body"),
            ("put_message(1, 1, 'x', 0)", "TL012", "priority 0"),
            ("put_message(1, 1, 'x', 11)", "TL012", "priority 11"),
            ("put_message(1, 1, 'x', 5, -1)", "TL012", "receiver -1"),
            ("put_message(1, 1, 'x', headers => '[]')", "TL012", "not array"),
            ("put_message(1, 1, 'x', headers => '\"a\"')", "TL012", "not string"),
            ("put_message(1, 1, 'x', headers => '{\"size\": 7}')", "TL012", "size is a text, not number"),
            ("put_message(1, 1, 'x', headers => '{\"size\": null}')", "TL012", "size is a text, not null"),
            ("put_message(1, 1, 'x', headers => '{\"\": \"x\"}')", "TL012", "has 0 bytes"),
            ("put_message(1, 1, 'x', headers => '{\"a\\nb\": \"x\"}')", "TL012", "control characters"),
            (
                "put_message(1, 1, 'x', headers => jsonb_build_object(repeat('n', 129), ''))",
                "TL012",
                "129 bytes",
            ),
            (
                "put_message(1, 1, 'x', headers => jsonb_build_object('n', repeat('v', 1025)))",
                "TL012",
                "1025",
            ),
            (
                "put_message(1, 1, 'x', headers => (SELECT jsonb_object_agg(n, '')"
                " FROM generate_series(1, 65) AS n))",
                "TL012",
                "65 headers",
            ),
            (
                "put_message(1, 1, 'x', headers => (SELECT jsonb_object_agg(n, repeat('v', 1024))"
                " FROM generate_series(1, 8) AS n))",
                "TL012",
                "8200 bytes",
            ),
            ("put_messages(2, '{1}', 'x')", "TL013", "client 2"),
            ("delete_client(99)", "TL005", "client 99"),
            ("delete_client(NULL)", "TL005", "client NULL"),
            ("delete_queue(99)", "TL007", "queue 99"),
            ("delete_queue(NULL)", "TL007", "queue NULL"),
            ("get_active_queues(99)", "TL005", "client 99"),
            ("get_messages_from_queue(99, 1)", "TL005", "client 99"),
            ("get_messages_from_queue(1, 99)", "TL007", "queue 99"),
            ("read_message_by_priority(99, 1)", "TL005", "client 99"),
            ("read_message_by_timestamp(1, 99)", "TL007", "queue 99"),
            ("read_response_message(1, 1, NULL)", "TL012", "context"),
        ],
    )
    def test_errors_carry_the_code_and_the_caller_s_figures(
        self, user: Session, call: str, sqlstate: str, words: str
    ) -> None:
        user.client("alice")
        user.client("reader", READ_ONLY)
        user.queue("orders")
        with pytest.raises(psycopg.Error, match=words) as caught:
            user.value(f"SELECT telesto.{call}")
        assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    ("body", "stored", "content_type"),
    [
        ("'nails'", b"nails", "text/plain; charset=utf-8"),
        ("'nails'::text", b"nails", "text/plain; charset=utf-8"),
        ("'nails'::varchar(9)", b"nails", "text/plain; charset=utf-8"),
        ("name FROM (SELECT 'für' AS name) AS item", "für".encode(), "text/plain; charset=utf-8"),
        ("""'{"order":7}'::jsonb""", b'{"order": 7}', "application/json"),
        ("""'{"order":7}'::json""", b'{"order":7}', "application/json"),
        (
            "item FROM (SELECT 7 AS item_id, 'saw' AS name) AS item",
            b'{"item_id":7,"name":"saw"}',
            "application/json",
        ),
        ("ARRAY[1, 2]", b"[1,2]", "application/json"),
        ("7.5", b"7.5", "application/json"),
        ("'\\x00ff'::bytea", b"\x00\xff", None),
    ],
)
@pytest.mark.parametrize(
    ("procedure", "table"), [("put", "staged_messages"), ("put_to_topic", "staged_topic_messages")]
)
def test_a_body_of_any_type_is_put_by_the_names_of_queue_or_topic_and_client(
    user: Session, procedure: str, table: str, body: str, stored: bytes, content_type: str | None
) -> None:
    user.queue("orders")
    what, source, rows = body.partition(" FROM ")
    staged = user.value(f"SELECT telesto.{procedure}('orders', {what}){source}{rows}")
    [found] = user.rows(f"SELECT * FROM telesto.{table} WHERE staged_id = %s", staged)
    assert found["body"] == stored
    assert found["headers"] == (None if content_type is None else {"content-type": content_type})
    if procedure == "put":
        assert found["queue_id"] == user.value("SELECT telesto.get_queue('orders')")
    else:
        assert found["topic"] == "orders"
    assert found["sender_id"] == user.value("SELECT telesto.declare_client()")
    assert user.value("SELECT (telesto.identify(%s)).name = session_user", found["sender_id"])


def test_what_is_put_by_names_has_all_that_a_message_may_have(user: Session) -> None:
    user.queue("orders")
    reader = user.client("reader")
    user.value(
        """SELECT telesto.put('orders', 'nails', priority => 9, delay => interval '5 s', dedup_key => 'key',
           headers => '{"content-type": "text/csv", "a": "b"}', expires => interval '1 day',
           receiver_id => %s, context => 4, sender => 'shop')""",
        reader,
    )
    [found] = user.rows("SELECT * FROM telesto.staged_messages")
    assert found["headers"] == {"content-type": "text/csv", "a": "b"}
    assert (found["priority"], found["receiver_id"], found["context"]) == (9, reader, 4)
    assert (found["dedup_key"], found["delay_ms"], found["expires_ms"]) == ("key", 5_000, 86_400_000)
    shop = user.value("SELECT telesto.declare_client('shop')")
    assert found["sender_id"] == shop == user.value("SELECT (telesto.get_client_id('shop')).client_id")


def test_what_is_put_to_a_topic_has_the_given_headers_and_sender(user: Session) -> None:
    user.value(
        """SELECT telesto.put_to_topic('prices', 'wheat 210', sender => 'shop',
           headers => '{"content-type": "text/csv", "a": "b"}')"""
    )
    [found] = user.rows("SELECT * FROM telesto.staged_topic_messages")
    assert found["headers"] == {"content-type": "text/csv", "a": "b"}
    assert found["sender_id"] == user.value("SELECT telesto.declare_client('shop')")


@pytest.mark.parametrize("procedure", ["put", "put_to_topic"])
def test_puts_by_name_refuse_what_they_cannot_take(user: Session, procedure: str) -> None:
    user.queue("orders")
    user.client("looker", READ_ONLY)
    crowd = ", ".join(f'"{number}": ""' for number in range(64))  # and content-type
    for arguments, code in (
        ("'orders', NULL", "TL012"),
        ("'', 'nails'", "TL007" if procedure == "put" else "TL012"),
        ("NULL, 'nails'", "TL007" if procedure == "put" else "TL012"),
        ("'orders', NULL::jsonb", "TL012"),
        ("'orders', 'nails', headers => '[]'", "TL012"),
        ("'orders', 'nails', headers => 'null'", "TL012"),
        ("'orders', 'nails', headers => '{\"a\": 1}'", "TL012"),
        (f"'orders', 'nails', headers => '{{{crowd}}}'", "TL012"),
        ("'orders', 'nails', sender => ''", "TL012"),
        ("'orders', 'nails', sender => 'looker'", "TL013"),
    ):
        with pytest.raises(psycopg.Error) as refused:
            user.value(f"SELECT telesto.{procedure}({arguments})")
        assert refused.value.sqlstate == code, arguments
    if procedure == "put":
        with pytest.raises(psycopg.Error, match="there is no queue 'none'"):
            user.value("SELECT telesto.put('none', 'nails')")


def test_two_transactions_that_put_first_under_one_name_are_one_client(
    user: Session, other: Session, calls: Calls
) -> None:
    """The second waits for the first, and then uses the client that this one has registered."""
    user.queue("orders")
    with ThreadPoolExecutor(1) as pool:
        with user.transaction():
            user.value("SELECT telesto.put('orders', '1', sender => 'shop')")
            second = pool.submit(other.value, "SELECT telesto.put('orders', '2', sender => 'shop')")
            until_blocked(calls, other)
        second.result(timeout=60)
    assert len(set(user.column("SELECT sender_id FROM telesto.staged_messages"))) == 1
