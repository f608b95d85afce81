"""What the head of a procedure's file must say depends on what the procedure does."""

from pathlib import Path

import pytest

from tools.checks.procedures import procedure_problems

HEAD = "-- Procedure:  p\n-- Purpose:    Does it.\n"
SIGNATURE = (
    "CREATE OR REPLACE FUNCTION telesto.p()\nRETURNS void\nLANGUAGE plpgsql\nAS $$\nBEGIN\n    {}\nEND\n$$;\n"
)


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("PERFORM telesto.raise_error(:INVALID_PARAMETER, 'no');", "Errors"),
        ("PERFORM pg_advisory_xact_lock(telesto.put_lock_key(1));", "Locks"),
        ("DELETE FROM telesto.messages;", "Tables"),
    ],
)
def test_a_head_must_say_what_the_procedure_raises_locks_and_touches(
    tmp_path: Path, statement: str, part: str
) -> None:
    file = tmp_path / "p.sql"
    file.write_text(HEAD + SIGNATURE.format(statement))
    assert procedure_problems(tmp_path) == [f"db/procedures/p.sql: the head has no line '{part}:'"]
    file.write_text(f"{HEAD}-- {part}:     it\n" + SIGNATURE.format(statement))
    assert procedure_problems(tmp_path) == []


def test_a_procedure_that_only_calls_others_needs_a_purpose_alone(tmp_path: Path) -> None:
    (tmp_path / "p.sql").write_text(HEAD + SIGNATURE.format("PERFORM telesto.q() FROM telesto.r();"))
    assert procedure_problems(tmp_path) == []
