"""The suite itself: a test that hangs fails by its name, and processes of tests answer to signals and end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from started import LIMIT_S, STARTED, end

HANGING = """
import threading

def test_that_hangs():
    threading.Event().wait()

def test_behind_it():
    pass
"""
HANGING_END = """
import threading
import pytest

@pytest.fixture
def hanging():
    yield
    threading.Event().wait()

def test_that_fails(hanging):
    assert False
"""
#: Starts a process, which has the same stderr, stops it, and is killed.
KILLED = """
import os, signal, subprocess, sys
command = [*sys.argv[1:], sys.executable, "-c", "print('runs', flush=True); input()"]
process = subprocess.Popen(command, stdout=subprocess.PIPE)
process.stdout.readline()
os.kill(process.pid, signal.SIGSTOP)
os.waitpid(process.pid, os.WUNTRACED)
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
ROOT = Path(__file__).resolve().parents[1]


def test_a_test_that_hangs_fails_by_its_name(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert 0 < float(request.config.getini("timeout")) < float(request.config.getini("faulthandler_timeout"))
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGING)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--timeout",
        "0.5",
        str(file),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "test_that_hangs - Failed: Timeout" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout


def test_a_failed_test_whose_end_hangs_ends_its_process(tmp_path: Path) -> None:
    file = tmp_path / "test_hanging_end.py"
    file.write_text(HANGING_END)
    limits = ["--timeout", "50", "-o", "faulthandler_timeout=1"]
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-p", "conftest", *limits]
    ended = subprocess.run(
        [*command, str(file)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "in hanging" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_process_of_a_test_answers_to_signals_that_the_tests_ignore(number: signal.Signals) -> None:
    ignoring = f"trap '' {number.name.removeprefix('SIG')}; exec \"$@\""
    show = "import signal; print(signal.alarm(0)); signal.raise_signal(int(input()))"
    with subprocess.Popen(
        ["sh", "-c", ignoring, "sh", *STARTED, sys.executable, "-c", show],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    ) as process:
        said, _ = process.communicate(b"%d\n" % number, 60)
    assert process.returncode == -number
    assert 0 < int(said) <= LIMIT_S


def test_a_stopped_process_of_a_test_ends_with_the_tests() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *STARTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as killed:
        assert killed.stdout is not None
        stopped = int(killed.stdout.readline())
        try:
            # Both have ended when nothing can be written any more.
            assert killed.communicate(timeout=60) == (b"", b"")
        except subprocess.TimeoutExpired:
            os.kill(stopped, signal.SIGKILL)
            raise
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("obeys", [False, True])
def test_a_process_of_a_test_is_ended_in_order_or_killed(
    stopped: bool, obeys: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("started.END_S", 60.0 if obeys else 0.1)
    obey = "lambda *_: sys.exit(7)" if obeys else "signal.SIG_IGN"
    program = f"import signal, sys; signal.signal(signal.SIGTERM, {obey}); print('runs', flush=True); input()"
    with subprocess.Popen(
        [*STARTED, sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        if stopped:
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
        end(process)
    assert process.returncode == (7 if obeys else -signal.SIGKILL)
