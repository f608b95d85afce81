"""Upgrading, telling where the schema stands, and finding what is wrong with it."""

import re
import shutil
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.rows import dict_row

from consumer_calls import Consuming
from procedure_calls import BUSY, Calls, Client, Element, Put
from telesto.db import schema
from telesto.db.checks.findings import INVARIANTS
from telesto.db.install import migrate
from telesto.db.install.manifest import (
    Access,
    Manifest,
    Procedure,
    RowType,
    load_manifest,
    procedures_directory,
)
from telesto.db.install.procedures import install_procedures
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import PACKETS
from topic_calls import TopicCalls

MANIFEST = load_manifest()
TABLES = {
    "clients",
    "dead_letters",
    "deleted_queues",
    "deliveries",
    "installation",
    "interests",
    "jobs",
    "messages",
    "middlewares",
    "operations",
    "put_states",
    "queues",
    "receiver_states",
    "schema_revision",
    "staged_messages",
    "take_states",
}
COLUMNS = """
SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attstorage::text, pg_get_expr(d.adbin, d.adrelid), c.reloptions
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'telesto'::regnamespace
ORDER BY 1, a.attnum
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'telesto'::regnamespace AND contype <> 'n'
ORDER BY 1, 2
"""
INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'telesto' ORDER BY 1"
SEQUENCES = "SELECT sequencename::text, cache_size FROM pg_sequences WHERE schemaname = 'telesto' ORDER BY 1"
FUNCTIONS = """
SELECT p.oid::regprocedure::text, p.prosrc, p.prosecdef, p.provolatile::text, p.proconfig
FROM pg_proc p WHERE p.pronamespace = 'telesto'::regnamespace ORDER BY 1
"""
SIGNATURES = """
SELECT p.proname::text,
       ARRAY(SELECT ROW(coalesce(p.proargnames[i], ''), format_type(u.t, NULL),
                        coalesce(p.proargmodes[i]::text, 'i'))
             FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) WITH ORDINALITY AS u (t, i)
             ORDER BY i)::text[],
       format_type(p.prorettype, NULL)
FROM pg_proc p WHERE p.pronamespace = 'telesto'::regnamespace
"""
# What clients and middlewares keep busy: anything that stands here needs plans without statistics.
BUSY_TABLES = ("messages", "deliveries", "operations", "receiver_states")


def snapshot(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        statements = (COLUMNS, CONSTRAINTS, INDEXES, SEQUENCES, FUNCTIONS)
        return [connection.execute(statement.encode()).fetchall() for statement in statements]


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_an_upgrade_makes_everything_and_the_next_one_nothing(empty_database_url: str) -> None:
    first = schema.upgrade(empty_database_url)
    assert (first.changed, first.revision_before) == (True, None)
    assert first.installed == len(MANIFEST.procedures)
    made = snapshot(empty_database_url)
    assert {row[0] for row in made[0]} >= TABLES
    second = schema.upgrade(empty_database_url)
    assert (second.changed, second.installed, second.dropped) == (False, 0, ())
    assert snapshot(empty_database_url) == made
    assert schema.check(empty_database_url) == []


def test_a_fresh_schema_equals_one_that_was_migrated_step_by_step(
    empty_database_url: str, database_url: str
) -> None:
    engine = migrate.engine_for(empty_database_url)
    for revision in migrate.known_revisions():
        with engine.begin() as connection:
            migrate.migrate(connection, revision)
    schema.upgrade(empty_database_url)
    assert snapshot(empty_database_url) == snapshot(database_url)


def test_two_upgrades_at_once_are_one(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(schema.upgrade, [empty_database_url] * 4))
    assert sorted(report.changed for report in reports) == [False, False, False, True]
    assert schema.check(empty_database_url) == []


def test_the_status_tells_before_and_after(empty_database_url: str) -> None:
    before = schema.current(empty_database_url)
    assert (before.revision, before.checksum, before.up_to_date, before.usable) == (None, None, False, False)
    with pytest.raises(schema.SchemaTooOldError, match="no Telesto in this database yet: run `telesto db up"):
        schema.require_current(empty_database_url)
    schema.upgrade(empty_database_url)
    after = schema.require_current(empty_database_url)
    assert after.up_to_date
    assert (after.revision, after.checksum) == (after.head, MANIFEST.checksum)


def test_other_procedures_of_the_same_edition_need_an_upgrade(database_url: str) -> None:
    execute(database_url, "UPDATE telesto.installation SET checksum = 'other'")
    with pytest.raises(schema.SchemaTooOldError):
        schema.require_current(database_url)
    assert schema.upgrade(database_url).changed
    assert schema.require_current(database_url).up_to_date


NEWER = "UPDATE telesto.installation SET edition = {edition}, serves = {serves}, checksum = 'newer'"


def test_a_newer_schema_that_still_serves_this_release_is_used_and_not_touched(database_url: str) -> None:
    newer = MANIFEST.edition + 3
    execute(
        database_url,
        NEWER.format(edition=newer, serves=MANIFEST.edition),
        "UPDATE telesto.schema_revision SET version_num = '9999'",
    )
    status = schema.require_current(database_url)
    assert (status.newer, status.usable, status.up_to_date) == (True, True, False)
    with pytest.raises(schema.SchemaTooNewError):
        schema.upgrade(database_url)


def test_a_newer_schema_that_serves_this_release_no_more_is_refused(database_url: str) -> None:
    newer = MANIFEST.edition + 3
    execute(database_url, NEWER.format(edition=newer, serves=newer))
    with pytest.raises(schema.SchemaTooNewError, match=f"edition {newer}"):
        schema.require_current(database_url)


def test_several_hosts_and_libpq_parameters_reach_the_server(empty_database_url: str) -> None:
    parts = urlsplit(empty_database_url)
    user, _, host = parts.netloc.rpartition("@")
    url = f"postgresql://{user}@127.0.0.1:1,{host}{parts.path}?target_session_attrs=read-write"
    assert schema.upgrade(url).changed
    assert schema.check(url) == []


def test_the_incarnation_survives_upgrades(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        before = connection.execute("SELECT incarnation FROM telesto.installation").fetchall()
    execute(database_url, "UPDATE telesto.installation SET checksum = ''")
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT incarnation FROM telesto.installation").fetchall() == before


def variant(**texts: str) -> Manifest:
    """The manifest with further procedures, or with other texts of its own."""
    kept = tuple(replace(p, sql=texts.pop(p.name, p.sql)) for p in MANIFEST.procedures)
    added = tuple(Procedure(name, Access.INTERNAL, sql) for name, sql in texts.items())
    return replace(MANIFEST, procedures=kept + added)


def install(url: str, manifest: Manifest) -> tuple[str, ...]:
    with psycopg.connect(url, autocommit=True) as connection:
        return install_procedures(connection, manifest).dropped


EXTRA = (
    "CREATE OR REPLACE FUNCTION telesto.extra({parameters}) RETURNS {result} LANGUAGE sql AS $$ SELECT 1 $$"
)


def test_functions_that_left_the_manifest_are_dropped(database_url: str) -> None:
    install(database_url, variant(extra=EXTRA.format(parameters="", result="int")))
    execute(database_url, EXTRA.format(parameters="a int", result="int"))
    assert install(database_url, MANIFEST) == ("telesto.extra()", "telesto.extra(integer)")
    assert schema.check(database_url) == []


def test_a_changed_result_type_is_replaced(database_url: str) -> None:
    install(database_url, variant(extra=EXTRA.format(parameters="", result="int")))
    assert install(database_url, variant(extra=EXTRA.format(parameters="", result="bigint"))) == (
        "telesto.extra()",
    )


ROWS = (
    "CREATE OR REPLACE FUNCTION telesto.rows() RETURNS SETOF telesto.pair LANGUAGE sql AS $$ SELECT 1, 2 $$"
)


def with_pair(columns: str) -> Manifest:
    """The manifest with a row type of these columns and a function that returns rows of it."""
    pair = RowType("pair", f"CREATE TYPE telesto.pair AS ({columns})")
    return replace(variant(rows=ROWS), types=(*MANIFEST.types, pair))


def test_a_changed_row_type_is_replaced_with_the_functions_that_use_it(database_url: str) -> None:
    assert install(database_url, with_pair("a int, b int")) == ()
    assert install(database_url, with_pair("a int, b int")) == ()
    assert install(database_url, with_pair("a int, c int")) == ("telesto.rows()",)
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        assert connection.execute("SELECT * FROM telesto.rows()").fetchall() == [{"a": 1, "c": 2}]
    assert install(database_url, MANIFEST) == ("telesto.rows()",)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT to_regtype('telesto.pair')").fetchall() == [(None,)]
    assert schema.check(database_url) == []


def test_a_changed_parameter_leaves_no_second_function(database_url: str) -> None:
    install(database_url, variant(extra=EXTRA.format(parameters="", result="int")))
    assert install(database_url, variant(extra=EXTRA.format(parameters="a int", result="int"))) == (
        "telesto.extra()",
    )


def test_an_installation_that_fails_changes_nothing(database_url: str) -> None:
    before = snapshot(database_url)
    with pytest.raises(psycopg.errors.SyntaxError):
        install(database_url, variant(sweep="CREATE OR REPLACE FUNCTION telesto.sweep("))
    assert snapshot(database_url) == before
    assert schema.current(database_url).up_to_date


def test_a_function_is_replaced_under_running_sessions(
    calls: Calls, client: Client, queue: int, database_url: str
) -> None:
    calls.put_bodies(client, queue, b"1")
    execute(database_url, "UPDATE telesto.installation SET checksum = ''")
    assert schema.upgrade(database_url).changed
    assert calls.take_one(client, queue).bodies == [b"1"]


@pytest.mark.parametrize(
    ("statement", "subject", "detail"),
    [
        ("DROP FUNCTION telesto.sweep", "sweep", "missing"),
        (EXTRA.format(parameters="", result="int"), "extra", "not this release's"),
        (
            "CREATE FUNCTION telesto.elect() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$",
            "elect",
            "more than once",
        ),
        (
            "CREATE OR REPLACE FUNCTION telesto.client_lock_key(client_id bigint) RETURNS bigint "
            "LANGUAGE sql IMMUTABLE AS $$ SELECT client_id $$",
            "client_lock_key",
            "text is not",
        ),
        ("UPDATE telesto.installation SET checksum = 'other'", "installation", "telesto db upgrade"),
    ],
)
def test_a_check_finds_functions_that_are_not_the_releases(
    database_url: str, statement: str, subject: str, detail: str
) -> None:
    execute(database_url, statement)
    problems = schema.check(database_url)
    assert [problem for problem in problems if problem.subject == subject and detail in problem.detail]


def test_a_check_of_an_empty_database_says_so(empty_database_url: str) -> None:
    (problem,) = schema.check(empty_database_url)
    assert problem.subject == "installation"


AGAIN = "INSERT INTO telesto.{table} SELECT {columns} FROM telesto.{table}"
MESSAGE = (
    "queue_id, receiver_id, message_id, sender_id, context, time_of_arrival, attempt, priority, redelivered,"
    " body"
)
DAMAGE = {
    "put_states one": AGAIN.format(
        table="put_states", columns="queue_id, 99, total, directed_total, last_id, upper, hidden_total"
    ),
    "take_states one": AGAIN.format(
        table="take_states", columns="queue_id, 99, total, directed_total, lower, hidden_total"
    ),
    "receiver_states one": AGAIN.format(table="receiver_states", columns="queue_id, receiver_id, 99, lower"),
    "states without queue": AGAIN.format(
        table="put_states", columns="999, 1, total, directed_total, last_id, upper, hidden_total"
    ),
    "total": "UPDATE telesto.put_states SET total = total + 1",
    "hidden total": "UPDATE telesto.put_states SET hidden_total = hidden_total + 1, total = total + 1",
    "directed total": "UPDATE telesto.take_states SET directed_total = directed_total + 1",
    "message without queue": "UPDATE telesto.messages SET queue_id = 999 WHERE receiver_id = 0",
    "bound": "UPDATE telesto.take_states SET lower = array_fill(1 << 30, ARRAY[10])",
    "own bound": "UPDATE telesto.receiver_states SET lower = array_fill(1 << 30, ARRAY[10])",
    "last id": "UPDATE telesto.put_states SET last_id = 1",
    "twice": f"INSERT INTO telesto.messages ({MESSAGE}) SELECT {MESSAGE} FROM telesto.deliveries",
    "leased and waiting": f"INSERT INTO telesto.messages ({MESSAGE}) SELECT {MESSAGE} FROM telesto.leases",
    "leased and delayed": (
        f"INSERT INTO telesto.delayed_messages ({MESSAGE}, due_at)"
        f" SELECT {MESSAGE}, now() FROM telesto.leases"
    ),
    "delayed and waiting": (
        f"INSERT INTO telesto.delayed_messages ({MESSAGE}, due_at)"
        f" SELECT {MESSAGE}, now() FROM telesto.messages"
    ),
    "leased twice": AGAIN.format(
        table="leases",
        columns="consumer_id, 999, message_id, queue_id, client_id, receiver_id, sender_id, context,"
        " time_of_arrival, deadline, attempt, priority, redelivered, body",
    ),
    "client": "DELETE FROM telesto.clients WHERE client_id IN (SELECT client_id FROM telesto.deliveries)",
    "partition one": AGAIN.format(
        table="partitions",
        columns="queue_id, sender_id, 999, owner_id, lease_id, next_id, line_id, place, line, partition_key",
    ),
    "partition_states one": AGAIN.format(
        table="partition_states",
        columns="queue_id, 999, arrived_id, unowned_from, draining_from, leaving_from, consumer_ids, counts,"
        " ready_from",
    ),
    "partition begins above": "UPDATE telesto.partitions SET next_id = 1 << 30",
    "partition without a line": "UPDATE telesto.partitions SET line = 5",
    "partition of nobody": "UPDATE telesto.partitions SET owner_id = 999, line_id = 999 WHERE line = 1",
    "partition's lease": "UPDATE telesto.partitions SET lease_id = 999",
    "partitions of a consumer": "UPDATE telesto.partition_states SET counts = ARRAY[5]",
    "topic_states one": AGAIN.format(table="topic_states", columns="topic_id, 99, last_number, subscribers"),
    "subscribers": "UPDATE telesto.topic_states SET subscribers = subscribers + 1",
    "position missing": "DELETE FROM telesto.positions",
    "position without subscription": "INSERT INTO telesto.positions VALUES (999, 1, 0)",
    "position before the start": "UPDATE telesto.positions SET position = 0",
    "topic message missing": "DELETE FROM telesto.topic_messages WHERE number = 3",
    "topic message above": "UPDATE telesto.topic_messages SET number = 9 WHERE number = 2",
    "topic message left over": "INSERT INTO telesto.topic_messages"
    " SELECT 999, number, sender_id, time_of_arrival, body FROM telesto.topic_messages",
    "topic state left over": "INSERT INTO telesto.topic_states VALUES (999, 1, 1, 0)",
    "partition noted and missing": (
        "INSERT INTO telesto.history_partitions (day, name) VALUES ('2001-01-01', 'nowhere')"
    ),
    "partition not noted": "UPDATE telesto.history_partitions SET name = 'other'",
    "days of the partitions": "UPDATE telesto.history_calendar SET days = '{2001-01-01}'",
    "no days": "DELETE FROM telesto.history_calendar",
    "subscriber": (
        "DELETE FROM telesto.clients WHERE client_id IN (SELECT client_id FROM telesto.subscriptions)"
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_check_finds_rows_that_contradict_each_other(
    topic_calls: TopicCalls, database_url: str, damage: str
) -> None:
    calls = topic_calls
    client = calls.register()
    queue = calls.create_queue(client)
    calls.put_bodies(client, queue, *[b"x"] * 30, receiver=client.client_id)
    calls.put_bodies(client, queue, *[b"x"] * 30)
    calls.take_one(client, queue, max_messages=20)
    consuming = Consuming(calls)
    consumer = consuming.join(client, queue)
    consuming.claim(consumer, count=5)
    calls.put([Put(client, [Element(queue, partition="p")] * 5)])
    while not any(lease.message["partition_key"] for lease in consuming.claim(consumer, count=2).leases):
        pass
    publisher, subscriber = calls.register(), calls.register()
    calls.put_to(publisher, "t", b"nobody's")
    calls.subscribe(subscriber, "t")
    calls.put_to(publisher, "t", b"2", b"3", b"4")
    assert schema.check(database_url) == []
    calls.connection.execute(DAMAGE[damage].encode())
    assert schema.check(database_url) != []


def test_every_invariant_is_damaged_by_some_test() -> None:
    # What the totals say is damaged in three ways; where a leased message may be besides, and the history's
    # partitions, in two.
    assert len(DAMAGE) == len(INVARIANTS) + 4


# --- the files ---------------------------------------------------------------------------------
def sql_files() -> dict[str, str]:
    with as_file(procedures_directory()) as directory:
        return {path.stem: path.read_text(encoding="utf-8") for path in sorted(directory.rglob("*.sql"))}


def test_every_file_is_in_the_manifest_and_every_entry_has_a_file() -> None:
    assert sorted(sql_files()) == sorted(entry.name for entry in (*MANIFEST.types, *MANIFEST.procedures))


def test_every_variant_of_a_procedure_exists_once(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        names = [name for name, _, _ in connection.execute(SIGNATURES.encode())]
    variants = [
        name
        for procedure in MANIFEST.procedures
        for name in re.findall(r"^CREATE OR REPLACE FUNCTION telesto\.(\w+)", procedure.sql, re.MULTILINE)
    ]
    assert sorted(names) == sorted(variants)
    assert set(names) == {procedure.name for procedure in MANIFEST.procedures}


SPELLINGS = {
    "int": "integer",
    "int[]": "integer[]",
    "timestamptz": "timestamp with time zone",
    "timestamptz[]": "timestamp with time zone[]",
}


@pytest.mark.parametrize("name", sorted(name for name, sql in sql_files().items() if "-- Returns:" in sql))
def test_headers_say_the_type_that_is_returned(calls: Calls, name: str) -> None:
    found = {row["format_type"] for row in calls.query(SIGNATURES) if row["proname"] == name}
    returns = sql_files()[name].split("-- Returns:\n--   ", 1)[1].split("\n")[0].split("  ")[0]
    assert found == {SPELLINGS.get(returns, returns)}


def touches_busy_tables(name: str) -> bool:
    """Whether a procedure, or an internal one that it calls, names a table that needs pinned plans."""
    body = sql_files()[name].split("\nCREATE", 1)[1]
    if re.search(rf"telesto\.({'|'.join(BUSY_TABLES)})\b", body):
        return True
    internal = {procedure.name for procedure in MANIFEST.procedures if procedure.access is Access.INTERNAL}
    called = set(re.findall(r"telesto\.(\w+)\(", body)) & internal - {name}
    return any(touches_busy_tables(callee) for callee in called)


@pytest.mark.parametrize(
    "procedure",
    [
        procedure
        for procedure in MANIFEST.procedures
        if procedure.access is Access.PUBLIC and touches_busy_tables(procedure.name)
    ],
    ids=lambda procedure: procedure.name,
)
def test_public_procedures_that_touch_busy_tables_carry_their_settings(procedure: Procedure) -> None:
    assert set(re.findall(r"^SET (\w+) =", procedure.sql, re.MULTILINE)) >= {
        "search_path",
        "plan_cache_mode",
        "enable_seqscan",
        "enable_bitmapscan",
        "enable_hashjoin",
        "enable_mergejoin",
        "jit",
    }


def test_a_manifest_that_names_a_procedure_twice_is_refused(tmp_path: Path) -> None:
    entry = '[[procedure]]\nfile = "a.sql"\naccess = "public"\n'
    (tmp_path / "manifest.toml").write_text("edition = 1\nserves = 1\n" + entry * 2)
    (tmp_path / "a.sql").write_text("SELECT 1")
    with pytest.raises(ValueError, match="names a more than once"):
        load_manifest(tmp_path)


def test_the_errors_and_packets_that_procedures_name_have_the_codes_of_the_protocol() -> None:
    manifest = tomllib.loads((procedures_directory() / "manifest.toml").read_text(encoding="utf-8"))
    errors, methods = manifest["errors"], manifest["methods"]
    assert errors == {name: BUSY if name == "BUSY" else ErrorCode[name] for name in errors}
    packets = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", packet.__name__).upper(): n for n, packet in PACKETS.items()
    }
    assert methods == {name: packets[name] for name in methods}
    named = {name for sql in sql_files().values() for name in re.findall(r"(?<!:):([A-Z_]+)", sql)}
    assert named == errors.keys() | methods.keys()


def test_a_procedure_that_names_an_unknown_error_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.toml").write_text(
        'edition = 1\nserves = 1\n[errors]\nKNOWN = 5\n[[procedure]]\nfile = "a.sql"\naccess = "internal"\n'
    )
    (tmp_path / "a.sql").write_text("SELECT :KNOWN::smallint")
    assert load_manifest(tmp_path).procedures[0].sql == "SELECT 5::smallint"
    (tmp_path / "a.sql").write_text("SELECT :UNKNOWN")
    with pytest.raises(ValueError, match=r"a\.sql: manifest\.toml has no error or packet UNKNOWN"):
        load_manifest(tmp_path)


def test_the_checksum_depends_on_all_that_is_installed(tmp_path: Path) -> None:
    def changed(alter: Callable[[Path], None]) -> str:
        copy = tmp_path / alter.__name__
        with as_file(procedures_directory()) as directory:
            shutil.copytree(directory, copy)
        alter(copy)
        return load_manifest(copy).checksum

    def nothing(_: Path) -> None: ...

    def text(copy: Path) -> None:
        sweep = copy / "maintenance" / "sweep.sql"
        sweep.write_text(sweep.read_text() + "\n")

    def edition(copy: Path) -> None:
        manifest = copy / "manifest.toml"
        manifest.write_text(manifest.read_text().replace("edition = 1", "edition = 2"))

    assert changed(nothing) == MANIFEST.checksum
    assert len({MANIFEST.checksum, changed(text), changed(edition)}) == 3


def test_migrations_say_when_they_may_run() -> None:
    with as_file(files("telesto.db") / "migrations" / "versions") as versions:
        for path in versions.glob("*.py"):
            assert re.search(r'^rollout = "(before|after)"$', path.read_text(), re.MULTILINE), path.name


def test_the_hot_path_has_one_index_a_table_and_no_foreign_keys(calls: Calls) -> None:
    rows = calls.query(
        "SELECT tablename, count(*) AS n FROM pg_indexes WHERE schemaname = 'telesto'"
        " AND tablename = ANY (%s) AND indexname <> 'messages_expiry' GROUP BY 1",
        [*BUSY_TABLES, "put_states", "take_states"],
    )
    assert [row["n"] for row in rows] == [1] * 6
    assert (
        calls.scalar(
            "SELECT count(*) FROM pg_constraint WHERE connamespace = 'telesto'::regnamespace"
            " AND contype = 'f' AND conname NOT IN ('sql_users_user', 'user_usage_user')"
        )
        == 0
    )
