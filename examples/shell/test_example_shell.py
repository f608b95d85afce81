"""Runs the pipeline with real workers, one of which is killed in the middle of a line."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import LIMIT, until
from telesto import TelestoClient

HERE = Path(__file__).parent


class Shell:
    """A folder, and commands that run in it with the service in their environment."""

    def __init__(self, folder: Path, url: str) -> None:
        path = f"{Path(sys.executable).parent}:{HERE}:{os.environ['PATH']}"
        self.folder = folder
        self.environment = {**os.environ, "TELESTO_URL": url, "PATH": path}
        self.started: list[subprocess.Popen[bytes]] = []

    def run(self, command: str, text: str = "") -> str:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=LIMIT,
        ).stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        # A session of its own, so that the processes that it starts can be ended with it.
        self.started.append(
            subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True)
        )
        return self.started[-1]

    def sorted_lines(self) -> set[tuple[str, str]]:
        files = self.folder.glob("sorted/*/[0-9]*")
        return {(file.parent.name, file.read_text().rstrip("\n")) for file in files}


@pytest.fixture
def shell(tmp_path: Path, telesto_url: str) -> Iterator[Shell]:
    shell = Shell(tmp_path, telesto_url)
    yield shell
    for process in shell.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT)


def test_lines_are_sorted_and_what_failed_is_redriven(shell: Shell, telesto_client: TelestoClient) -> None:
    (shell.folder / "levels").write_text("INFO\nERROR\n")
    levels = ["INFO", "ERROR", "TRACE", "INFO"]
    lines = [(levels[number % 4], f"line {number}") for number in range(24)]
    known = {line for line in lines if line[0] != "TRACE"}
    workers = shell.start("work.sh", "3")
    until(lambda: telesto_client.get_queues())
    shell.run("telesto put lines --lines -", "".join(f"{level} {text}\n" for level, text in lines))

    until(lambda: shell.sorted_lines() == known)
    until(lambda: telesto_client.queue("lines").statistics().dead == 6)
    letters = [json.loads(line) for line in shell.run("telesto dead list lines --json").splitlines()]
    assert len(letters) == 6, letters
    assert all(letter["reason"] == "failed: exit status 1" for letter in letters), letters

    shell.run("echo TRACE >> levels; telesto dead redrive lines --all")
    until(lambda: shell.sorted_lines() == set(lines))
    workers.send_signal(signal.SIGTERM)
    assert workers.wait(LIMIT) == 0
    statistics = telesto_client.queue("lines").statistics()
    assert (statistics.depth, statistics.leased, statistics.dead) == (0, 0, 0)


def test_a_line_comes_again_when_its_worker_is_killed(shell: Shell, telesto_client: TelestoClient) -> None:
    levels = shell.folder / "levels"
    os.mkfifo(levels)  # reading it takes until the test has written
    queue = telesto_client.declare_queue("lines")
    message_id = json.loads(shell.run("telesto put lines 'INFO started' --json"))["message_id"]
    killed = shell.start("telesto", "consume", "lines", "--exec", "sort_line.sh")
    with levels.open("w"):  # opened once the command has opened it
        levels.unlink()
        levels.write_text("INFO\n")
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(LIMIT)
    assert shell.sorted_lines() == set()

    shell.run("telesto consume lines --exec sort_line.sh --count 1")
    assert shell.sorted_lines() == {("INFO", "started")}
    records = telesto_client.message_history(message_id).records
    assert [record.state.name for record in records] == ["RETURNED", "ACKNOWLEDGED"]
    assert queue.statistics().depth == 0
