"""The generated calls of procedures fit the procedures as they are installed."""

import inspect
import tomllib

import pytest

from procedure_calls import Calls
from telesto.db import calls as generated
from telesto.db.install.manifest import procedures_directory

GRANTS = tomllib.loads((procedures_directory() / "grants.toml").read_text(encoding="utf-8"))
CALLED = GRANTS["role"]["telesto_middleware"]["execute"]
#: The parameters that go in, with whether the procedure is STABLE.
INSTALLED = """
SELECT array_agg(argument.name ORDER BY argument.i) AS names, p.provolatile = 's' AS reads
FROM pg_proc AS p
LEFT JOIN unnest(p.proargnames, p.proargmodes) WITH ORDINALITY AS argument (name, mode, i)
    ON coalesce(argument.mode, 'i') = 'i'
WHERE p.pronamespace = 'telesto'::regnamespace AND p.proname = %s
GROUP BY p.oid
"""


@pytest.mark.parametrize("name", CALLED)
def test_a_call_names_the_parameters_of_the_procedure(calls: Calls, name: str) -> None:
    (row,) = calls.connection.execute(INSTALLED, (name,)).fetchall()
    function = getattr(generated, name)
    names = list(inspect.signature(function).parameters)
    assert names == [name for name in row["names"] or [] if name is not None]
    text, *arguments = function(**{name: name for name in names})
    assert arguments == names
    assert (
        text == f"SELECT * FROM telesto.{name}({', '.join(f'{n} => ${i}' for i, n in enumerate(names, 1))})"
    )
    assert (text in generated.READING) == row["reads"]
    # PREPARE resolves the names.
    calls.connection.execute(f"PREPARE call AS {text}")
    calls.connection.execute("DEALLOCATE call")


def test_the_arguments_of_a_second_call_stand_behind_those_of_the_first() -> None:
    text = generated.call_of(generated.get_queue_id, behind=generated.heartbeat)
    assert text == "telesto.get_queue_id(name => $5)"
