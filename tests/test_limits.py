"""The suite itself: a test that hangs fails by its name, and processes of tests answer to signals and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from started import LIMIT_S, STARTED

HANGING = """
import threading

def test_that_hangs():
    threading.Event().wait()

def test_behind_it():
    pass
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
