"""Runs the office's jobs with real workers, one of which is killed."""

import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from programs import LIMIT, Program, until
from telesto import TelestoClient

Office = Callable[..., Program]
TELESTO = str(Path(sys.executable).with_name("telesto"))


@pytest.fixture
def office(start: Office, tmp_path: Path) -> Office:
    """Start a program that works in the test's folder."""
    return lambda *command: start(*command, JOBS_FOLDER=str(tmp_path))


def put(office: Office, task: str, *arguments: object) -> None:
    """Put a task as an application does: by a line of Python."""
    office("-c", f"import jobs; jobs.{task}.put(*{arguments!r}); jobs.app.close()").finish()


def test_a_reminder_is_tried_until_there_is_a_mailbox(office: Office, tmp_path: Path) -> None:
    office("office.py", "remind", "bert", "call back").finish()
    worker = office(TELESTO, "worker", "jobs:app", "--queue", "reminders")
    worker.wait_for("remind bert, attempt 2")  # the first one has failed
    (tmp_path / "bert").mkdir()
    notes = tmp_path / "bert" / "notes"
    until(lambda: notes.exists() and notes.read_text().endswith("\n"))
    assert re.fullmatch(r"call back \(attempt ([2-9]|1\d)\)\n", notes.read_text())


def test_reminders_for_later_come_or_are_cancelled(
    office: Office, tmp_path: Path, telesto_client: TelestoClient
) -> None:
    (tmp_path / "anna").mkdir()
    soon = datetime.now(UTC) + timedelta(seconds=1)
    (tomorrow,) = office("office.py", "remind", "anna", "tomorrow", "--delay", "86400").finish()
    office("office.py", "remind", "anna", "soon", "--at", soon.isoformat()).finish()
    office(TELESTO, "worker", "jobs:app", "--queue", "reminders")
    notes = tmp_path / "anna" / "notes"
    until(lambda: notes.exists() and notes.read_text().endswith("\n"))
    assert telesto_client.queue("reminders").statistics().delayed == 1
    assert office("office.py", "cancel", tomorrow).finish() == ["cancelled"]
    assert office("office.py", "cancel", tomorrow).finish() == ["too late"]
    assert telesto_client.queue("reminders").statistics().depth == 0
    assert notes.read_text() == "soon (attempt 1)\n"


def test_a_server_that_says_nothing_is_a_dead_letter(office: Office, telesto_client: TelestoClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it never accepts, so it never says anything
        put(office, "probe", *silent.getsockname())
        office(TELESTO, "worker", "jobs:app", "--queue", "probes")
        probes = telesto_client.queue("probes")
        until(lambda: probes.statistics().dead)
    (letter,) = probes.dead_letters()
    assert letter.reason.startswith("failed: TaskTimeoutError: ")
    assert letter.message.attempt == 2


def test_sigterm_lets_a_task_end_and_leaves_the_next_one(
    office: Office, tmp_path: Path, telesto_client: TelestoClient
) -> None:
    source = tmp_path / "source"
    os.mkfifo(source)  # reading it takes until the test has written
    put(office, "count_lines", str(source))
    (tmp_path / "other").write_text("one\n")
    put(office, "count_lines", str(tmp_path / "other"))
    worker = office(TELESTO, "worker", "jobs:app", "--queue", "counts", "--concurrency", "1")
    counts = telesto_client.queue("counts")
    with source.open("w") as pipe:  # opened once the task has opened it
        worker.process.send_signal(signal.SIGTERM)
        until(lambda: counts.statistics().ready == 1)  # the worker gives the second message back
        pipe.write("one\ntwo\n")
    assert worker.process.wait(LIMIT) == 0
    assert (tmp_path / "source.count").read_text() == "2"
    if not (tmp_path / "other.count").exists():  # begun if it was ready before the signal came
        (rest,) = counts.browse()
        assert rest.attempt == 0
    assert (counts.statistics().leased, counts.statistics().dead) == (0, 0)


def test_a_killed_process_is_replaced_and_its_task_runs_again(office: Office, tmp_path: Path) -> None:
    source = tmp_path / "source"
    os.mkfifo(source)
    put(office, "count_lines", str(source))
    worker = office(TELESTO, "worker", "jobs:app", "--queue", "counts")
    with source.open("w"):  # the task reads now, and would for ever
        process = int(worker.wait_for("counts source").split()[1])
        source.unlink()
        source.write_text("one\ntwo\nthree\n")
        os.kill(process, signal.SIGKILL)
        worker.wait_for("counts source")
    result = tmp_path / "source.count"
    until(lambda: result.exists() and result.read_text() == "3")


def test_a_periodic_task_runs_once_for_each_time(office: Office, tmp_path: Path) -> None:
    office(TELESTO, "worker", "clock:app", "--queue", "ticks", "--processes", "2")
    ticks = tmp_path / "ticks"
    until(lambda: ticks.exists() and ticks.read_text().count("\n") >= 3)
    times = ticks.read_text().splitlines()
    assert len(times) == len(set(times))
