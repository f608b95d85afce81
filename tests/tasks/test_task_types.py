"""A type checker finds a task that is put wrongly."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
from datetime import datetime
from telesto.tasks import App
app = App(database="postgresql:")
@app.task(queue="orders", max_attempts=3, dedup_key="order_id")
def ship(order_id: int, place: str = "") -> int: return order_id
@app.task(transaction=True)
async def charge(connection: object, order_id: int) -> None: ...
@app.periodic("* * * * *")
@app.task()
def tick() -> None: ...
number: int = ship.put(order_id=7) + ship(7)
ship.put(order_id="7")
ship.put()
ship.options(delay=5).put(8, "here", 9)
ship.options(at="tomorrow")
charge.put(order_id=7)
charge.put(object(), 7)
text: str = ship(7)
app.periodic("* * * * *")(ship)
app.task(max_attempt=3)
ship.put_many([ship.message(1), ship.message("x")])
"""
WRONG = [12, 13, 14, 15, 17, 18, 19, 20, 21]


def test_a_type_checker_finds_wrong_calls(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", "--namespace-packages"]
    checked = subprocess.run(
        [*mypy, "--follow-imports", "silent", str(program)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line}
    assert sorted(lines) == WRONG, checked.stdout
