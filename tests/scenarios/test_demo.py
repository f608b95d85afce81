"""The demonstration at small size: what it prints, that it fails where it must, that it leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.waiting import wait_until
from started import STARTED

COMMAND = [*STARTED, sys.executable, "-m", "telesto.cli.main", "demo", "--producers", "2", "--readers", "2"]
TIMEOUT_S = 120.0
#: A second signal comes while it cleans up.
BETWEEN_SIGNALS_S = 0.1


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where the demonstration keeps its temporary things; empty at the end."""
    with tempfile.TemporaryDirectory(prefix="telesto-test-") as name:
        path = Path(name)
        path.chmod(0o711)  # PostgreSQL may run under an account of its own
        yield path
        # The directory of the names in use stays for the next client of this user.
        locks = path / f"telesto-{os.geteuid()}"
        assert [left for left in path.iterdir() if left != locks] == []


def _environment(scratch: Path) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(scratch)}


def _demo(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=_environment(scratch),
        timeout=TIMEOUT_S,
        check=False,
    )


def _processes_below(scratch: Path) -> list[str]:
    """Command lines of the processes that were given the directory, as an argument or as TMPDIR."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, variables = ((process / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:  # it has just ended
            continue
        if command and bytes(scratch) in command + variables:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


CONTENTS = {
    "text": b"".join(b"line %d\n" % number for number in range(3000)),
    "one line": b"the only one\n",
    "no newline": b"not even an end",
    "garbage": os.urandom(100_000),
    "empty": b"",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_every_line_comes_out_once(
    scratch: Path, module_data_dir: Path, tmp_path: Path, content: bytes
) -> None:
    """With a data directory that stays, which is made once for all of these."""
    file = tmp_path / "file"
    file.write_bytes(content)
    result = _demo(scratch, str(file), "--data-dir", str(module_data_dir), "--json")
    assert (result.returncode, result.stderr) == (0, "")
    figures = json.loads(result.stdout)
    lines = content.count(b"\n") + (content != b"" and not content.endswith(b"\n"))
    assert (figures["lines"], figures["bytes"], figures["middlewares"]) == (lines, len(content), 2)
    assert figures["passed"] is True
    faults = ("lost", "duplicated", "changed", "of_unknown_origin", "out_of_order")
    assert [figures[fault] for fault in faults] == [0] * len(faults)


def test_figures_for_people(scratch: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\nb\n")
    result = _demo(scratch, str(file))
    assert result.returncode == 0
    assert "lost\t0\n" in result.stdout
    assert "messages per second\t" in result.stdout
    assert "Every line came out exactly once" in result.stdout


def test_missing_file_is_told_before_anything_starts(scratch: Path) -> None:
    result = _demo(scratch, "/no/such/file")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("telesto: cannot read '/no/such/file': No such file or directory")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(scratch: Path, long_file: Path, number: signal.Signals) -> None:
    """A second signal does not stop it from cleaning up."""
    with _started(scratch, long_file) as demo:
        _wait_for_records(scratch)
        demo.send_signal(number)
        time.sleep(BETWEEN_SIGNALS_S)
        demo.send_signal(number)
        assert demo.wait(TIMEOUT_S) == 128 + number
    assert _processes_below(scratch) == []


def test_killed_it_leaves_no_process(long_file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="telesto-test-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        with _started(directory, long_file) as demo:
            _wait_for_records(directory)
            demo.kill()
        wait_until(lambda: not _processes_below(directory), TIMEOUT_S)


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """A text that takes some time."""
    file = tmp_path / "file"
    file.write_bytes(b"a line of some length\n" * 400_000)
    return file


def _started(scratch: Path, file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, str(file)], stdout=subprocess.DEVNULL, env=_environment(scratch))


def _wait_for_records(scratch: Path) -> None:
    """Until lines are on their way: a reader has written records."""
    wait_until(
        lambda: any(path.stat().st_size for path in scratch.glob("telesto-demo-*/records-*")), TIMEOUT_S
    )
