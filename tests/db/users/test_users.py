"""Users in the database: what a row may be, how they are found, who is told of changes, and patterns."""

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from procedure_calls import Calls
from telesto.middleware.security.users import compile_patterns

RIGHTS = ["configure", "put", "get", "admin", "clients"]
#: Few, so that patterns match: those with a meaning in LIKE, regular expressions or patterns.
CHARACTERS = st.sampled_from("aAb*?\\%_.[^$|()é𝄞")


def add(calls: Calls, name: str, **columns: Any) -> int:
    names = ["name", *columns]
    row = calls.query(
        f"INSERT INTO telesto.users ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
        " RETURNING user_id",
        name,
        *columns.values(),
    )
    return int(row[0]["user_id"])


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize(
    "patterns",
    [[""], ["a" * 256], ["a"] * 65, ["a", None], ["a\nb"], ["a\n"], ["\n"], [["a"], ["b"]], ["\x01"]],
    ids=repr,
)
def test_patterns_have_bounds(calls: Calls, right: str, patterns: list[Any]) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        add(calls, "alice", **{right: patterns})


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("patterns", [[], ["a" * 255] * 64, ["*"], ["\\", "é*"]], ids=lambda p: f"{len(p)}")
def test_patterns_within_their_bounds_are_kept(calls: Calls, right: str, patterns: list[str]) -> None:
    user_id = add(calls, "alice", **{right: patterns})
    (row,) = calls.query("SELECT * FROM telesto.find_users(names => '{}', user_ids => %s)", [user_id])
    assert row[right] == patterns


@pytest.mark.parametrize("name", ["", "a" * 256])
def test_names_have_bounds(calls: Calls, name: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        add(calls, name)


def test_a_name_is_one_users(calls: Calls) -> None:
    add(calls, "alice")
    add(calls, "Alice")
    with pytest.raises(psycopg.errors.UniqueViolation):
        add(calls, "alice")


def test_users_are_found_by_name_and_by_id(calls: Calls) -> None:
    alice, bob = add(calls, "alice", put=["orders-*"]), add(calls, "bob", enabled=False, monitor=True)
    find = "SELECT * FROM telesto.find_users(names => %s, user_ids => %s)"
    assert calls.query(find, ["nobody", "ALICE"], [0]) == []
    (found,) = calls.query(find, ["alice"], [])
    assert (found["user_id"], found["put"], found["enabled"]) == (alice, ["orders-*"], True)
    (found,) = calls.query(find, [], [bob])
    assert (found["name"], found["enabled"], found["monitor"]) == ("bob", False, True)
    assert {row["user_id"] for row in calls.query(find, ["alice"], [bob, alice])} == {alice, bob}


def test_the_state_of_logins_tells_of_users_and_keeps_its_secret(calls: Calls) -> None:
    (before,) = calls.query("SELECT * FROM telesto.get_login_state()")
    add(calls, "alice", enabled=False)
    (after,) = calls.query("SELECT * FROM telesto.get_login_state()")
    assert (before["has_users"], after["has_users"]) == (False, True)
    assert before["secret"] == after["secret"]
    assert len(before["secret"]) == 32


def test_each_change_of_a_user_is_told(calls: Calls, other: psycopg.Connection) -> None:
    calls.connection.execute("LISTEN telesto_users")
    changes = (
        "INSERT INTO telesto.users (name) VALUES ('alice') RETURNING user_id",
        "UPDATE telesto.users SET put = '{*}' WHERE name = 'alice' RETURNING user_id",
        "DELETE FROM telesto.users WHERE name = 'alice' RETURNING user_id",
    )
    for change in changes:
        row = other.execute(change.encode()).fetchone()
        assert row is not None
        other.commit()
        (told,) = calls.connection.notifies(timeout=5, stop_after=1)
        assert told.payload == str(row[0])


def test_a_role_is_a_user_until_that_is_gone(calls: Calls) -> None:
    user_id = add(calls, "alice")
    calls.query("INSERT INTO telesto.sql_users VALUES ('app', %s) RETURNING 1", user_id)
    calls.query("DELETE FROM telesto.users RETURNING 1")
    assert calls.query("SELECT * FROM telesto.sql_users") == []


class TestPatterns:
    """The middleware and the database decide in the same way."""

    @pytest.mark.parametrize(
        ("pattern", "names", "others"),
        [
            ("orders", ["orders"], ["order", "orders1", "Orders", ""]),
            ("orders-*", ["orders-", "orders-1", "orders-*"], ["orders", "xorders-1"]),
            ("a?c", ["abc", "a?c", "aéc", "a𝄞c"], ["ac", "abbc"]),
            ("*", ["a", "a*b"], []),
            ("a*b*c", ["abc", "axbxc", "abcbc"], ["abcb", "ac"]),
            ("a*a", ["aa", "aba"], ["a"]),
            (r"a\*c", ["a*c"], ["abc", r"a\c", r"a\*c"]),
            (r"a\?c", ["a?c"], ["abc"]),
            (r"a\\*", ["a\\", "a\\b"], ["a*", "ab"]),
            (r"a\b", [r"a\b"], ["ab"]),
            ("a\\", ["a\\"], ["a"]),
            ("100%", ["100%"], ["1000"]),
            ("a_c", ["a_c"], ["abc"]),
            ("a.c[b]", ["a.c[b]"], ["abc[b]", "a.cb"]),
        ],
    )
    def test_what_a_pattern_matches(
        self, calls: Calls, pattern: str, names: list[str], others: list[str]
    ) -> None:
        for name in names + others:
            expected = name in names
            assert bool(compile_patterns([pattern])(name)) is expected, name
            assert calls.scalar("SELECT telesto.name_matches(%s, %s)", [pattern], name) is expected, name

    def test_no_pattern_matches_nothing(self, calls: Calls) -> None:
        assert not compile_patterns([])("a")
        assert calls.scalar("SELECT telesto.name_matches('{}', 'a')") is False

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.text(CHARACTERS, min_size=1, max_size=8), max_size=3),
        st.lists(st.text(CHARACTERS, min_size=1, max_size=8), min_size=1, max_size=20),
    )
    @example(["a\\*\\"], ["a*\\"])
    @example(["\\\\\\*"], ["\\*"])
    def test_both_decide_the_same(self, calls: Calls, patterns: list[str], names: list[str]) -> None:
        names += patterns
        matches = compile_patterns(patterns)
        rows = calls.query(
            "SELECT name, telesto.name_matches(%s, name) AS matches FROM unnest(%s::text[]) AS name",
            patterns,
            names,
        )
        assert {row["name"]: row["matches"] for row in rows} == {name: bool(matches(name)) for name in names}

    def test_no_pattern_takes_long(self) -> None:
        """One that tries each way to share the characters among its stars would not end."""
        assert not compile_patterns(["*a" * 127 + "b"])("a" * 255)
