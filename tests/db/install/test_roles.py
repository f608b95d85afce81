"""Who may do what: the grants in the catalogue, and what each role is refused."""

import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from telesto.db import schema
from telesto.db.install.manifest import Access, load_manifest
from telesto.db.install.roles import Grant, Role, apply_grants, held_grants, load_roles, wanted_grants

ROLES = {role.name: role for role in load_roles()}
PUBLIC_NAMES = {
    procedure.name for procedure in load_manifest().procedures if procedure.access is Access.PUBLIC
}
# A server process may be ended by those who have its login, and what becomes JSON may run code of whoever has
# made its type, so these keep their caller's rights.
CALLERS_RIGHTS = {"heartbeat", "end_backends", "encode_body"}
OPEN_TO_PUBLIC = """
SELECT p.oid::regprocedure::text
FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS acl
WHERE p.pronamespace = 'telesto'::regnamespace AND acl.grantee = 0
"""
UNSAFE = """
SELECT p.proname::text FROM pg_proc p
WHERE p.pronamespace = 'telesto'::regnamespace AND p.prosecdef
  AND NOT 'search_path=pg_catalog, telesto, pg_temp' = ANY (coalesce(p.proconfig, '{}'))
"""
DEFINERS = "SELECT proname::text FROM pg_proc WHERE pronamespace = 'telesto'::regnamespace AND prosecdef"


@pytest.fixture
def owner(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=sorted(ROLES))
def role(request: pytest.FixtureRequest) -> Role:
    return ROLES[request.param]


def column(connection: psycopg.Connection, statement: str) -> set[str]:
    return {str(row[0]) for row in connection.execute(statement.encode())}


def become(connection: psycopg.Connection, role: Role) -> None:
    connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role.name)))


class TestFile:
    def test_names_public_procedures_only_and_all_of_them(self) -> None:
        granted = {name for role in ROLES.values() for name in role.execute}
        assert granted == PUBLIC_NAMES

    def test_a_malformed_entry_is_refused(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        (tmp_path / "grants.toml").write_text('[role.r]\npurpose = ""\nexecute = []\nselect = ["a; drop"]\n')
        with pytest.raises(ValueError, match="a; drop"):
            load_roles(tmp_path)


class TestCatalogue:
    def test_public_can_execute_nothing(self, owner: psycopg.Connection) -> None:
        assert column(owner, OPEN_TO_PUBLIC) == set()

    def test_public_holds_nothing_else_either(self, owner: psycopg.Connection) -> None:
        assert {grant for grant in held_grants(owner, []) if grant.role == "public"} == set()

    def test_each_role_holds_what_the_file_says(self, owner: psycopg.Connection, role: Role) -> None:
        held = {grant for grant in held_grants(owner, [role.name]) if grant.role == role.name}
        assert held == wanted_grants(owner, [role])
        functions = {grant.name.partition("(")[0] for grant in held if grant.kind == "FUNCTION"}
        assert functions == {f"telesto.{name}" for name in role.execute}

    def test_what_is_public_runs_with_the_owner_s_rights_and_a_safe_path(
        self, owner: psycopg.Connection
    ) -> None:
        assert column(owner, UNSAFE) == set()
        assert column(owner, DEFINERS) == PUBLIC_NAMES - CALLERS_RIGHTS


class TestRefusals:
    @pytest.mark.parametrize("name", ["telesto_middleware", "telesto_application"])
    @pytest.mark.parametrize("table", ["messages", "clients", "queues", "deliveries", "staged_messages"])
    @pytest.mark.parametrize(
        "statement", ["SELECT * FROM telesto.{}", "DELETE FROM telesto.{}", "TRUNCATE telesto.{}"]
    )
    def test_no_table_is_open(self, owner: psycopg.Connection, name: str, table: str, statement: str) -> None:
        become(owner, ROLES[name])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute(statement.format(table).encode())

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO telesto.queues (queue_id, name) VALUES (1, 'x')",
            "UPDATE telesto.messages SET priority = 1",
            "DELETE FROM telesto.dead_letters",
            "SELECT token FROM telesto.clients",
            "SELECT * FROM telesto.clients",
            "SELECT nextval('telesto.message_ids')",
            "SELECT telesto.create_queue('x')",
            "SELECT telesto.place_staged(1)",
            "CREATE TABLE telesto.mine ()",
        ],
    )
    def test_a_reader_changes_nothing_and_sees_no_token(
        self, owner: psycopg.Connection, statement: str
    ) -> None:
        become(owner, ROLES["telesto_reader"])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute(statement.encode())

    @pytest.mark.parametrize("call", ["add_queue('x', NULL, NULL)", "client_lock_key(1)", "remove_client(1)"])
    def test_internal_procedures_are_closed(self, owner: psycopg.Connection, role: Role, call: str) -> None:
        become(owner, role)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for function"):
            owner.execute(f"SELECT telesto.{call}".encode())

    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("telesto_application", "register_client('x', 1::smallint, NULL)"),
            ("telesto_application", "identify_client(1, NULL)"),
            ("telesto_application", "place_staged(1)"),
            ("telesto_middleware", "create_queue('x')"),
            ("telesto_middleware", "put_message(1, 1, 'x')"),
        ],
    )
    def test_each_role_keeps_to_its_own_procedures(
        self, owner: psycopg.Connection, name: str, call: str
    ) -> None:
        become(owner, ROLES[name])
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for function"):
            owner.execute(f"SELECT telesto.{call}".encode())

    def test_somebody_without_a_role_does_not_get_in(self, owner: psycopg.Connection) -> None:
        name = sql.Identifier(f"telesto_test_{uuid.uuid4().hex}")
        owner.execute(sql.SQL("CREATE ROLE {}").format(name))
        try:
            owner.execute(sql.SQL("SET ROLE {}").format(name))
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for schema"):
                owner.execute("SELECT telesto.create_queue('x')")
        finally:
            owner.execute("RESET ROLE")
            owner.execute(sql.SQL("DROP ROLE {}").format(name))


class TestUse:
    def test_an_application_can_work(self, owner: psycopg.Connection) -> None:
        become(owner, ROLES["telesto_application"])
        owner.execute("SELECT telesto.request_id('alice'), telesto.create_queue('orders')")
        owner.execute("SELECT telesto.put_message(1, 1, 'x')")
        owner.execute("RESET ROLE")
        become(owner, ROLES["telesto_middleware"])
        owner.execute("SELECT telesto.place_staged(10)")
        owner.execute("RESET ROLE")
        become(owner, ROLES["telesto_application"])
        assert owner.execute("SELECT body FROM telesto.read_message_by_priority(1, 1)").fetchone() == (b"x",)

    def test_a_middleware_can_see_whether_the_schema_fits(self, database_url: str) -> None:
        url = (
            f"{database_url}{'&' if urlsplit(database_url).query else '?'}options=-crole%3Dtelesto_middleware"
        )
        assert schema.require_current(url).up_to_date

    def test_a_reader_can_read_what_the_file_says(self, owner: psycopg.Connection) -> None:
        reader = ROLES["telesto_reader"]
        become(owner, reader)
        for table, columns in reader.select:
            owner.execute(f"SELECT {', '.join(columns) or '*'} FROM telesto.{table}".encode())


class TestApplying:
    def test_changes_nothing_the_second_time(self, owner: psycopg.Connection) -> None:
        report = apply_grants(owner)
        assert (report.created, report.missing, report.granted, report.revoked) == ((), (), 0, 0)
        assert report.advice is None

    def test_takes_back_what_somebody_gave(self, owner: psycopg.Connection) -> None:
        owner.execute("GRANT EXECUTE ON FUNCTION telesto.place_staged(int) TO PUBLIC")
        owner.execute("GRANT SELECT, INSERT ON telesto.messages TO telesto_application")
        owner.execute("GRANT SELECT (token) ON telesto.clients TO telesto_reader")
        owner.execute("GRANT USAGE ON SEQUENCE telesto.message_ids TO telesto_middleware")
        assert apply_grants(owner).revoked == 5
        assert column(owner, OPEN_TO_PUBLIC) == set()

    def test_restores_what_somebody_took(self, owner: psycopg.Connection, database_url: str) -> None:
        owner.execute("REVOKE ALL ON SCHEMA telesto FROM telesto_reader")
        owner.execute("REVOKE SELECT ON telesto.queues FROM telesto_reader")
        assert schema.upgrade(database_url).roles.granted == 2

    def test_grants_to_other_roles_are_left_alone(self, owner: psycopg.Connection) -> None:
        owner.execute("GRANT SELECT ON telesto.queues TO pg_monitor")
        assert apply_grants(owner).revoked == 0
        held = held_grants(owner, ["pg_monitor"])
        assert Grant("pg_monitor", "TABLE", "telesto.queues", "", "SELECT") in held

    def test_creates_a_role_that_is_missing(self, owner: psycopg.Connection) -> None:
        name = f"telesto_test_{uuid.uuid4().hex}"
        wanted = Role(name, "", ("create_queue",), (("queues", ()),))
        try:
            report = apply_grants(owner, [wanted])
            assert (report.created, report.missing, report.granted) == ((name,), (), 3)
            assert column(owner, f"SELECT rolcanlogin FROM pg_roles WHERE rolname = '{name}'") == {"False"}
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))

    def test_says_what_it_skipped_when_it_may_not_create_roles(
        self, empty_database_url: str, postgres_url: str
    ) -> None:
        """The owner of a database: all but the roles is installed, PUBLIC is shut out all the same."""
        name = f"telesto_test_{uuid.uuid4().hex}"
        parts = urlsplit(empty_database_url)
        plain_url = parts._replace(netloc=f"{name}:hunter2@{parts.netloc.rpartition('@')[2]}").geturl()
        identifier = sql.Identifier(name)
        database = sql.Identifier(parts.path.lstrip("/"))
        with psycopg.connect(empty_database_url, autocommit=True) as administrator:
            administrator.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hunter2'").format(identifier))
            administrator.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, identifier))
            try:
                schema.upgrade(plain_url)
                with psycopg.connect(plain_url, autocommit=True) as connection:
                    missing = Role(f"{name}_missing", "", ("create_queue",), ())
                    report = apply_grants(connection, [*ROLES.values(), missing])
                    assert report.missing == (missing.name,)
                    assert report.created == ()
                    assert report.advice is not None
                    assert f"CREATE ROLE {missing.name};" in report.advice
                    assert column(connection, OPEN_TO_PUBLIC) == set()
            finally:
                administrator.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(identifier))
                administrator.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(database))
                administrator.execute(sql.SQL("DROP ROLE {}").format(identifier))
