"""Clients, middlewares and SQL refuse the same names and keys."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from telesto.client.arguments import check_key, check_name, check_topic
from telesto.middleware.wire.validation import check_name as check_name_of_wire
from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.names import INVISIBLE, control_character, invisible_character

#: Beside each range that is refused, and in it; what a URL, an emoji or an accent are made of is allowed.
EDGES = {code for first, last in INVISIBLE for code in (first - 1, first, last, last + 1)}
ALLOWED = {*map(ord, "a é 漢 \U0001f600 - _ / % \u0301"), 0x10FFFF}
CODES = sorted(code for code in EDGES | ALLOWED if code >= 0)
#: No text of PostgreSQL has the others.
SQL_CODES = [code for code in CODES if code and not 0xD800 <= code <= 0xDFFF]
REFUSES = """
CREATE FUNCTION pg_temp.refuses(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN false;
EXCEPTION WHEN SQLSTATE 'TL012' THEN
    RETURN true;
END $$
"""


def refused(check: Callable[..., Any], code: int) -> bool:
    try:
        check(f"a{chr(code)}b")
    except InvalidParameterError:
        return True
    return False


@pytest.mark.parametrize("code", CODES, ids=hex)
def test_clients_and_middlewares_refuse_the_same(code: int) -> None:
    expected = any(first <= code <= last for first, last in INVISIBLE)
    assert (invisible_character(chr(code)) is not None) == expected
    assert refused(lambda name: check_name("name", name), code) == expected
    assert refused(lambda name: check_name_of_wire("name", name), code) == expected
    assert refused(check_topic, code) == expected
    assert refused(lambda key: check_key("key", key), code) == (control_character(chr(code)) is not None)


@pytest.mark.parametrize(
    ("statement", "character"),
    [
        ("SELECT telesto.require_name(%L)", invisible_character),
        ("SELECT telesto.put_to_topic(%L, '')", invisible_character),
        ("SELECT telesto.put_message({client}, {queue}, '', dedup_key => %L)", control_character),
        ("SELECT telesto.put_message({client}, {queue}, '', partition_key => %L)", control_character),
    ],
)
def test_sql_refuses_the_same(
    database_url: str, statement: str, character: Callable[[str], str | None]
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(REFUSES)
        made = connection.execute("SELECT telesto.request_id('alice', 1), telesto.create_queue('orders')")
        client, queue = made.fetchone() or (0, 0)
        found = connection.execute(
            "SELECT i, pg_temp.refuses(format(%s, 'a' || chr(i) || 'b')) FROM unnest(%s::int[]) AS i",
            (statement.format(client=client, queue=queue), SQL_CODES),
        )
        assert dict(found.fetchall()) == {code: character(chr(code)) is not None for code in SQL_CODES}
