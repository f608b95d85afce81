"""What the SQL interface lets the users of the service do: roles are mapped to them by telesto.sql_users."""

import re
import shlex
import tomllib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from procedure_calls import Calls
from telesto.db.install.manifest import procedures_directory

GRANTED = tomllib.loads((procedures_directory() / "grants.toml").read_text(encoding="utf-8"))
#: What only makes a body of its arguments needs no right.
FUNCTIONS = [name for name in GRANTED["role"]["telesto_application"]["execute"] if name != "encode_body"]
SIGNATURES = """
SELECT p.proargnames[1:p.pronargs] AS names, p.proargtypes::oid[]::regtype[]::text[] AS types
FROM pg_proc p WHERE p.pronamespace = 'telesto'::regnamespace AND p.proname = %s ORDER BY p.oid
"""
OVER_QUOTA = "TL076"
DENIED, NO_CLIENT, NO_QUEUE, NAME_TAKEN, LEASE_LOST = "TL032", "TL005", "TL007", "TL006", "TL027"
TABLES = """
SELECT relname::text FROM pg_class
WHERE relnamespace = 'telesto'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1
"""
#: What is given for parameters of a name; else by their type.
SECRET = "secret"
GIVEN = {
    "name": SECRET,
    "queue": SECRET,
    "topic": SECRET,
    "sender": "stranger",
    "mode": 1,
    "priority": 5,
    "max_rows": 100,
    "max_bytes": 1000,
    "after_id": 0,
    "after_message_id": 0,
    "from_sender": 0,
    "receiver_id": 0,
}
BY_TYPE = {"bytea": b"x", "anyelement": "x", "text": "x", "jsonb": None, "interval": None, "boolean": None}


@dataclass
class World:
    """A queue, a client and what it has, which belong to user `owner`."""

    queue_id: int
    client_id: int
    lease: tuple[int, int, int]


class Application:
    """A connection as a role of its own, which is a member of telesto_application."""

    def __init__(self, url: str, role: str) -> None:
        self.role = role
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))

    def value(self, statement: str, *arguments: Any) -> Any:
        row = self.connection.execute(statement.encode(), arguments).fetchone()
        return None if row is None else row[0]

    def refused(self, statement: str, *arguments: Any) -> str:
        """The SQLSTATE of a statement that must be refused."""
        with pytest.raises(psycopg.Error) as refused:
            self.connection.execute(statement.encode(), arguments)
        assert refused.value.sqlstate is not None, refused.value
        return refused.value.sqlstate


def _add_user(calls: Calls, name: str, **columns: Any) -> int:
    names = sql.SQL(", ").join(map(sql.Identifier, ["name", *columns]))
    marks = sql.SQL(", ").join([sql.Placeholder()] * (1 + len(columns)))
    statement = sql.SQL("INSERT INTO telesto.users ({}) VALUES ({}) RETURNING user_id").format(names, marks)
    return int(calls.connection.execute(statement, (name, *columns.values())).fetchall()[0]["user_id"])


@pytest.fixture
def become(database_url: str, calls: Calls) -> Iterator[Callable[..., Application]]:
    """Gives an application; of a user with these columns, or of nobody."""
    made: list[Application] = []

    def make(user: str | None = None, **columns: Any) -> Application:
        role = f"telesto_test_{uuid.uuid4().hex}"
        calls.connection.execute(f"CREATE ROLE {role} LOGIN IN ROLE telesto_application".encode())
        if user is not None:
            user_id = _add_user(calls, user, **columns)
            calls.connection.execute("INSERT INTO telesto.sql_users VALUES (%s, %s)", (role, user_id))
        made.append(Application(database_url, role))
        return made[-1]

    yield make
    for application in made:
        application.connection.close()
        calls.connection.execute(f"DROP OWNED BY {application.role}; DROP ROLE {application.role}".encode())


@pytest.fixture
def world(calls: Calls) -> World:
    client = calls.register("owners-client")
    queue_id = calls.scalar("SELECT telesto.create_queue('secret')")
    calls.put_bodies(client, queue_id, b"a", b"b")
    calls.query("SELECT telesto.put_to_topic('secret', 'x', sender => 'owners-client')")
    calls.query("SELECT telesto.place_staged_topics(10)")
    lease = (4711, 1, 4712)
    calls.connection.execute(
        """INSERT INTO telesto.leases (consumer_id, lease_id, message_id, queue_id, client_id, receiver_id,
               sender_id, time_of_arrival, deadline, attempt, priority, redelivered, body, handed_over_at)
           VALUES (%s, %s, %s, %s, %s, 0, %s, now(), now() + interval '1 day', 1, 5, false, 'x', now())""",
        (*lease, queue_id, client.client_id, client.client_id),
    )
    owner = _add_user(calls, "owner", clients=["*"], get=["*"])
    calls.connection.execute("UPDATE telesto.clients SET user_id = %s", (owner,))
    return World(queue_id, client.client_id, lease)


def _arguments(world: World, names: list[str] | None, types: list[str]) -> list[Any]:
    ids = {
        "queue_id": world.queue_id,
        "from_queue": world.queue_id,
        "queue_ids": [world.queue_id],
        "client_id": world.client_id,
        "sender_id": world.client_id,
        "reader_id": world.client_id,
        "for_context": 1,
        "consumer_id": world.lease[0],
        "lease_id": world.lease[1],
        "message_id": world.lease[2],
    }
    given = ids | GIVEN
    return [
        given[name] if name in given else BY_TYPE.get(kind)
        for name, kind in zip(names or [], types, strict=True)
    ]


def _contents(calls: Calls) -> dict[str, list[str]]:
    names = [str(row["relname"]) for row in calls.query(TABLES)]
    return {
        name: [
            str(row["row"]) for row in calls.query(f"SELECT t::text AS row FROM telesto.{name} t ORDER BY 1")
        ]
        for name in names
    }


def _every_call(calls: Calls, name: str, world: World) -> list[tuple[str, list[Any]]]:
    """Each variant of a function, with arguments that mean what belongs to somebody else."""
    found = []
    for row in calls.query(SIGNATURES, name):
        names, types = row["names"], row["types"]
        marks = ", ".join(f"%s::{'text' if kind == 'anyelement' else kind}" for kind in types)
        found.append((f"SELECT * FROM telesto.{name}({marks})", _arguments(world, names, types)))
    assert found
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_role_of_no_user_may_do_nothing(
    calls: Calls, world: World, become: Callable[..., Application], name: str
) -> None:
    nobody = become()
    before = _contents(calls)
    for statement, arguments in _every_call(calls, name, world):
        assert nobody.refused(statement, *arguments) == DENIED
    assert _contents(calls) == before


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_role_of_a_disabled_user_may_do_nothing(
    calls: Calls, world: World, become: Callable[..., Application], name: str
) -> None:
    disabled = become("disabled", enabled=False, administrator=True)
    for statement, arguments in _every_call(calls, name, world):
        assert disabled.refused(statement, *arguments) == DENIED


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_user_without_rights_changes_and_learns_nothing(
    calls: Calls, world: World, become: Callable[..., Application], name: str
) -> None:
    stranger = become("stranger", clients=["stranger"], put=["other"], get=["other"], configure=["other"])
    stranger.value("SELECT telesto.declare_client('stranger')")
    before = _contents(calls)
    for statement, arguments in _every_call(calls, name, world):
        rows, refusal = _outcome(stranger, statement, arguments)
        if refusal is None:  # what a function returns in a row, NOT_EXISTING, or no row at all
            assert all(row[0] in (5, 7) and not any(row[1:]) for row in rows), rows
        else:
            assert refusal.sqlstate in (DENIED, NO_CLIENT, NO_QUEUE, NAME_TAKEN, LEASE_LOST), refusal
            assert SECRET not in str(refusal) or SECRET in arguments
    assert _contents(calls) == before


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_there_is_answered_as_what_is_not(
    calls: Calls, world: World, become: Callable[..., Application], name: str
) -> None:
    stranger = become("stranger", clients=["stranger"], put=["other"])
    stranger.value("SELECT telesto.declare_client('stranger')")
    there = _answers(calls, stranger, name, world)
    absent = World(world.queue_id + 1000, world.client_id + 1000, (1, 2, 3))
    calls.connection.execute("UPDATE telesto.queues SET name = 'renamed'")
    calls.connection.execute("UPDATE telesto.topics SET name = 'renamed'")
    assert _answers(calls, stranger, name, absent) == there


def _answers(calls: Calls, application: Application, name: str, world: World) -> list[str]:
    found = []
    for statement, arguments in _every_call(calls, name, world):
        rows, refusal = _outcome(application, statement, arguments)
        text = re.sub(r"\d+", "N", str(rows if refusal is None else refusal.diag.message_primary))
        found.append(f"{refusal.sqlstate if refusal else ''} {text}")
    return found


def _outcome(
    application: Application, statement: str, arguments: list[Any]
) -> tuple[list[tuple[Any, ...]], psycopg.Error | None]:
    try:
        return application.connection.execute(statement.encode(), arguments).fetchall(), None
    except psycopg.Error as refused:
        return [], refused


def test_without_users_everybody_may_do_everything(calls: Calls, become: Callable[..., Application]) -> None:
    anybody = become()
    assert anybody.value("SELECT telesto.declare_queue('orders')")
    assert anybody.value("SELECT telesto.put('orders', 'x', sender => 'a')")
    calls.query("SELECT telesto.place_staged(10)")
    assert anybody.value("SELECT body FROM telesto.read_message_by_priority(1, 1)") == b"x"


def test_a_user_does_what_its_patterns_allow(
    calls: Calls, world: World, become: Callable[..., Application]
) -> None:
    shop = become(
        "shop", clients=["shop-*"], configure=["orders*"], put=["orders*", "prices"], get=["orders*"]
    )
    queue = shop.value("SELECT telesto.declare_queue('orders', dead_letter_queue => NULL)")
    assert shop.value("SELECT telesto.put('orders', 'x', sender => 'shop-1')")
    assert shop.value("SELECT telesto.put_to_topic('prices', 'x', sender => 'shop-1')")
    calls.query("SELECT telesto.place_staged(10)")
    client = shop.value("SELECT telesto.declare_client('shop-1')")
    assert calls.scalar("SELECT user_id FROM telesto.clients WHERE client_id = %s", client) == calls.scalar(
        "SELECT user_id FROM telesto.users WHERE name = 'shop'"
    )
    assert shop.value("SELECT telesto.get_queue('orders')") == queue
    assert shop.connection.execute("SELECT name FROM telesto.list_queues(0, 100)").fetchall() == [("orders",)]
    assert shop.connection.execute("SELECT name FROM telesto.list_queues(0, 100, '{*}')").fetchall() == [
        ("orders",)
    ]
    assert shop.value("SELECT body FROM telesto.read_message_by_priority(%s, %s)", client, queue) == b"x"
    shop.value("SELECT telesto.update_queue(%s, max_messages => 5)", queue)
    assert shop.refused("SELECT telesto.update_queue(%s, dead_letter_queue => 'secret')", queue) == DENIED
    shop.value("SELECT telesto.delete_queue(%s)", queue)


@pytest.mark.parametrize(
    ("right", "statement"),
    [
        ("configure", "SELECT telesto.update_queue({queue}, max_messages => 5)"),
        ("configure", "SELECT telesto.declare_queue('secret', max_messages => 5, update_settings => true)"),
        ("configure", "SELECT telesto.delete_queue({queue})"),
        ("put", "SELECT telesto.put('secret', 'x', sender => 'mine')"),
        ("put", "SELECT telesto.put_messages({client}, ARRAY[{queue}], 'x')"),
        ("put", "SELECT telesto.put_to_topic('secret', 'x', sender => 'mine')"),
        ("get", "SELECT telesto.read_message_by_priority({client}, {queue})"),
        ("get", "SELECT telesto.get_messages_from_queue({client}, {queue})"),
    ],
)
def test_each_right_allows_its_own_calls_only(
    calls: Calls, world: World, become: Callable[..., Application], right: str, statement: str
) -> None:
    rights = {"configure": ["secret"], "put": ["secret"], "get": ["secret"], "admin": ["secret"]}
    lacking = become("lacking", clients=["mine"], **(rights | {right: []}))
    client = lacking.value("SELECT telesto.declare_client('mine')")
    statement = statement.format(client=client, queue=world.queue_id)
    assert lacking.refused(statement) == DENIED
    calls.connection.execute(
        f"UPDATE telesto.users SET {right} = '{{secret}}' WHERE name = 'lacking'".encode()
    )
    lacking.connection.execute(statement.encode())


@pytest.mark.parametrize("name", ["orders", "a*b?c", "it's \\ $(x)"])
def test_the_command_that_gives_the_right_is_told(
    calls: Calls, become: Callable[..., Application], name: str
) -> None:
    shop = become("it's", configure=["none"])
    with pytest.raises(psycopg.Error) as refused:
        shop.value("SELECT telesto.create_queue(%s)", name)
    words = shlex.split(str(refused.value).partition("to allow it: ")[2].splitlines()[0])
    assert words[:5] == ["telesto", "user", "allow", "it's", "--configure"]
    calls.connection.execute("UPDATE telesto.users SET configure = ARRAY[%s]", [words[5]])
    shop.value("SELECT telesto.create_queue(%s)", name)


def test_nobody_puts_under_the_name_of_another(
    calls: Calls, world: World, become: Callable[..., Application]
) -> None:
    thief = become("thief", clients=["*"], put=["*"])
    assert thief.refused("SELECT telesto.put('secret', 'x', sender => 'owners-client')") == NAME_TAKEN
    assert (
        thief.refused("SELECT telesto.put_message(%s, %s, 'x')", world.client_id, world.queue_id) == NO_CLIENT
    )
    assert thief.refused("SELECT telesto.delete_client(%s)", world.client_id) == NO_CLIENT
    assert thief.refused("SELECT telesto.identify(%s)", world.client_id) == NO_CLIENT
    assert thief.refused("SELECT telesto.ack(%s, %s, %s)", *world.lease) == LEASE_LOST


@pytest.mark.parametrize("become_owner", ["member", "administrator", "middleware"])
def test_who_may_do_everything(
    calls: Calls, world: World, become: Callable[..., Application], become_owner: str
) -> None:
    if become_owner == "administrator":
        free = become("chief", administrator=True)
    else:
        free = become()
        group = calls.scalar("SELECT current_user") if become_owner == "member" else "telesto_middleware"
        calls.connection.execute(f"GRANT {group} TO {free.role}".encode())
    free.value("SELECT telesto.put_message(%s, %s, 'x')", world.client_id, world.queue_id)
    free.value("SELECT telesto.delete_queue(%s)", world.queue_id)


def test_another_role_is_not_taken_for_the_one_that_has_logged_in(
    calls: Calls, world: World, become: Callable[..., Application]
) -> None:
    """SET ROLE makes nobody another user."""
    chief, nobody = become("chief", administrator=True), become()
    calls.connection.execute(f"GRANT {chief.role} TO {nobody.role}".encode())
    nobody.connection.execute(f"SET ROLE {chief.role}".encode())
    assert nobody.refused("SELECT telesto.get_queue('secret')") == DENIED


def test_a_quota_of_queues_and_clients_holds_in_sql(calls: Calls, become: Callable[..., Application]) -> None:
    shop = become("shop", clients=["*"], configure=["*"], max_queues=2, max_clients=1)
    shop.value("SELECT telesto.declare_queue('a')")
    shop.value("SELECT telesto.create_queue('b')")
    assert shop.refused("SELECT telesto.create_queue('c')") == OVER_QUOTA
    assert shop.refused("SELECT telesto.declare_queue('c')") == OVER_QUOTA
    shop.value("SELECT telesto.declare_queue('a')")  # it is there
    shop.value("SELECT telesto.delete_queue(telesto.get_queue('a'))")
    shop.value("SELECT telesto.declare_queue('c')")
    shop.value("SELECT telesto.declare_client('one')")
    shop.value("SELECT telesto.declare_client('one')")
    assert shop.refused("SELECT telesto.declare_client('two')") == OVER_QUOTA
    assert shop.refused("SELECT telesto.request_id('two')") == OVER_QUOTA


@pytest.mark.parametrize(
    "evil",
    [
        "'; DROP TABLE telesto.messages; --",
        "$$; SELECT 1; $$",
        "\\'; DELETE FROM telesto.queues; --",
        "%s %L %I %",
        '"; --',
        "*",
        "E'\\x27'",
    ],
)
def test_texts_are_never_taken_for_sql(
    calls: Calls, world: World, become: Callable[..., Application], evil: str
) -> None:
    literal = "".join(f"\\{char}" if char in "*?\\" else char for char in evil)
    user = become("evil", clients=[literal], configure=[literal], put=[literal], get=[literal])
    queue = user.value("SELECT telesto.declare_queue(%s)", evil)
    assert user.value(
        "SELECT telesto.put(%s, %s, sender => %s, dedup_key => %s, "
        "headers => jsonb_build_object(%s::text, %s::text))",
        *([evil] * 6),
    )
    assert user.value("SELECT telesto.put(%s, %s, sender => %s, partition_key => %s)", *([evil] * 4))
    assert user.value("SELECT telesto.put_to_topic(%s, %s, sender => %s)", *([evil] * 3))
    for function in ("place_staged", "place_staged_topics"):
        calls.query(f"SELECT telesto.{function}(10)")
    client = user.value("SELECT client_id FROM telesto.get_client_id(%s)", evil)
    read = user.connection.execute(
        "SELECT convert_from(body, 'UTF8'), headers ->> %s FROM telesto.read_message_by_priority(%s, %s)",
        (evil, client, queue),
    ).fetchone()
    assert read == (evil, evil)
    assert user.refused("SELECT telesto.get_queue('secret')") == NO_QUEUE
    assert user.refused("SELECT telesto.create_queue('secret')") == DENIED
    assert calls.scalar("SELECT count(*) FROM telesto.queues") == 2


@pytest.mark.parametrize(
    "body",
    ["'a'::pg_temp.mood", "ROW('a'::pg_temp.mood)", "ARRAY['a'::pg_temp.mood]", "ROW('a')::pg_temp.pair"],
)
def test_what_an_application_defines_for_its_types_runs_with_its_own_rights(
    calls: Calls, become: Callable[..., Application], body: str
) -> None:
    """to_json calls the casts that somebody has defined, which would do everything as the owner."""
    application = become("shop", put=["*"], configure=["*"], clients=["*"])
    application.connection.execute("""
        CREATE TYPE pg_temp.mood AS ENUM ('a');
        CREATE TYPE pg_temp.pair AS (mood pg_temp.mood);
        CREATE FUNCTION pg_temp.tell(pg_temp.mood) RETURNS json LANGUAGE sql
            AS 'SELECT to_json(current_user)';
        CREATE CAST (pg_temp.mood AS json) WITH FUNCTION pg_temp.tell(pg_temp.mood);
    """)
    application.value("SELECT telesto.declare_queue('orders')")
    for put in (
        f"SELECT telesto.put('orders', {body}, sender => 'shop')",
        f"SELECT telesto.put_to_topic('prices', {body}, sender => 'shop')",
    ):
        application.value(put)
    for table in ("staged_messages", "staged_topic_messages"):
        (row,) = calls.query(f"SELECT convert_from(body, 'UTF8') AS body FROM telesto.{table}")
        assert application.role in row["body"]
        application.refused("SELECT * FROM telesto.users")
    application.connection.execute("DROP CAST (pg_temp.mood AS json)")


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT telesto.put('orders', 'text', sender => 'shop')",
        "SELECT telesto.put('orders', '\\x00'::bytea, sender => 'shop')",
        "SELECT telesto.put('orders', 5, sender => 'shop')",
        "SELECT telesto.put_to_topic('orders', 'text', sender => 'shop')",
        "SELECT telesto.put_message(1, 1, '\\x00')",
        "SELECT telesto.get_queue('orders')",
        "SELECT telesto.declare_queue('orders')",
        "SELECT telesto.declare_client('shop')",
        "SELECT telesto.get_queue_settings(1)",
        "SELECT * FROM telesto.list_queues(0, 10)",
    ],
)
def test_a_call_looks_its_caller_up_once(
    calls: Calls, become: Callable[..., Application], statement: str, mapped: bool
) -> None:
    rights = {right: ["*"] for right in ("put", "get", "configure", "clients")}
    application = become("shop", **rights) if mapped else become()
    client = calls.scalar("SELECT telesto.declare_client('shop')")
    calls.connection.execute("UPDATE telesto.clients SET user_id = (SELECT user_id FROM telesto.users)")
    queue = calls.scalar("SELECT telesto.create_queue('orders')")
    assert (client, queue) == (1, 1)
    with application.connection.transaction():
        application.connection.execute("SET SESSION AUTHORIZATION DEFAULT")
        application.connection.execute("SET LOCAL track_functions = 'all'")
        role = sql.Identifier(application.role)
        application.connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(role))
        application.value(statement)
        assert (
            application.value(
                "SELECT sum(calls) FROM pg_stat_xact_user_functions WHERE funcname = 'sql_caller'"
            )
            == 1
        )


@pytest.mark.parametrize(
    "put",
    [
        "SELECT telesto.put_message(telesto.declare_client('owners-client'), 1, 'x')",
        "SELECT telesto.put('secret', 'x', sender => 'owners-client')",
        "SELECT telesto.put_to_topic('secret', 'x', sender => 'owners-client')",
    ],
)
def test_a_client_of_nobody_is_its_users_once_the_user_puts_as_it(
    calls: Calls, become: Callable[..., Application], put: str
) -> None:
    """It counts for the quota, and what was handed to it from queues that the user may not read goes back."""
    client = calls.register("owners-client")
    queue = calls.create_queue(client, name="secret")
    calls.put_bodies(client, queue, b"taken")
    calls.take_one(client, queue)
    shop = become("shop", clients=["*"], put=["*"], max_clients=0)
    assert (client.client_id, queue) == (1, 1)
    assert shop.refused("SELECT telesto.put_message(1, 1, 'x')") == DENIED
    assert shop.refused(put) == OVER_QUOTA
    assert calls.scalar("SELECT count(*) FROM telesto.deliveries") == 1
    calls.connection.execute("UPDATE telesto.users SET max_clients = 1")
    assert shop.value(put)
    assert shop.value(put)
    shop_id = calls.scalar("SELECT user_id FROM telesto.users WHERE name = 'shop'")
    assert calls.scalar("SELECT user_id FROM telesto.clients WHERE name = 'owners-client'") == shop_id
    assert calls.scalar("SELECT count(*) FROM telesto.deliveries") == 0
    assert calls.scalar("SELECT redelivered FROM telesto.messages") is True


MEASURE = "SELECT telesto.measure_users(1, 60, 20000)"


def test_a_quota_of_what_is_stored_holds_in_sql(calls: Calls, become: Callable[..., Application]) -> None:
    """What waits to be placed is stored, too."""
    shop = become("shop", clients=["*"], put=["*"], configure=["*"], max_stored_messages=2)
    shop.value("SELECT telesto.declare_queue('orders')")
    put = "SELECT telesto.put('orders', 'x', sender => 'shop-1')"
    shop.value(put)
    calls.query("SELECT telesto.place_staged(10)")
    calls.query(MEASURE)
    shop.value(put)
    calls.query(MEASURE)
    assert calls.scalar("SELECT stored_messages FROM telesto.user_usage") == 2
    assert shop.refused(put) == OVER_QUOTA
    assert shop.refused("SELECT telesto.put_to_topic('prices', 'x', sender => 'shop-1')") == OVER_QUOTA
    stored_bytes = calls.scalar("SELECT stored_bytes FROM telesto.user_usage")
    calls.connection.execute(
        "UPDATE telesto.users SET max_stored_messages = NULL, max_stored_bytes = %s", (stored_bytes,)
    )
    assert shop.refused(put) == OVER_QUOTA
    calls.connection.execute("DELETE FROM telesto.staged_messages")
    calls.query(MEASURE)
    assert shop.value(put)


def test_a_quota_of_topics_holds_in_sql(calls: Calls, become: Callable[..., Application]) -> None:
    shop = become("shop", clients=["*"], put=["*"], max_topics=1)
    put = "SELECT telesto.put_to_topic(%s, 'x', sender => 'shop-1')"
    shop.value(put, "one")
    calls.query("SELECT telesto.place_staged_topics(10)")
    shop_id = calls.scalar("SELECT user_id FROM telesto.users")
    assert calls.scalar("SELECT user_id FROM telesto.topics WHERE name = 'one'") == shop_id
    assert shop.refused(put, "two") == OVER_QUOTA
    assert shop.value(put, "one")


def test_a_large_table_is_estimated_from_a_part_of_it(calls: Calls) -> None:
    client = calls.register("shop-1")
    queue = calls.create_queue(client)
    user = _add_user(calls, "shop", max_stored_bytes=1)
    calls.connection.execute("UPDATE telesto.clients SET user_id = %s", (user,))
    calls.put_bodies(client, queue, *([bytes(1_000)] * 4_000))
    calls.query("SELECT telesto.measure_users(1, 60, 100)")
    row = calls.query("SELECT stored_messages, stored_bytes FROM telesto.user_usage")[0]
    assert 1_500 < row["stored_messages"] < 8_000
    assert row["stored_bytes"] == pytest.approx(1_000 * row["stored_messages"], rel=0.01)


@pytest.mark.parametrize("right", ["get", "admin"])
def test_dead_letters_go_elsewhere_by_who_could_see_them(
    become: Callable[..., Application], calls: Calls, right: str
) -> None:
    """Else whoever may configure a queue could read by another one what it may not read there."""
    calls.scalar("SELECT telesto.create_queue('mine')")
    calls.scalar("SELECT telesto.create_queue('orders')")
    shop = become("shop", configure=["*"], put=["*"], get=["mine"])
    for statement in (
        "SELECT telesto.create_queue('orders-2', dead_letter_queue => 'mine')",
        "SELECT telesto.declare_queue('orders-2', dead_letter_queue => 'mine')",
        "SELECT telesto.declare_queue('orders', dead_letter_queue => 'mine', update_settings => true)",
        "SELECT telesto.update_queue(2, dead_letter_queue => 'mine')",
    ):
        assert shop.refused(statement) == DENIED, statement
    calls.connection.execute(
        sql.SQL("UPDATE telesto.users SET {} = {} || 'orders*'::text").format(*[sql.Identifier(right)] * 2)
    )
    assert shop.value("SELECT telesto.declare_queue('orders-2', dead_letter_queue => 'mine')")
