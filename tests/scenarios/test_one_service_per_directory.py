import json
import subprocess
import sys
from pathlib import Path

from started import STARTED, end

TIMEOUT_S = 60.0


def _command(data_dir: Path) -> list[str]:
    command = [*STARTED, sys.executable, "-m", "telesto.cli.main", "serve", "--port", "0", "--json"]
    return [*command, "--data-dir", str(data_dir)]


def test_second_service_on_a_data_directory_is_refused(data_dir: Path) -> None:
    command = _command(data_dir)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        assert first.stdout is not None
        try:
            assert json.loads(first.stdout.readline())["data_dir"] == str(data_dir)
            second = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert second.returncode == 5
            assert second.stdout == ""
            assert second.stderr.startswith(
                f"telesto: data directory {data_dir}: is in use by process {first.pid}"
            )
            assert second.stderr.count("\n") == 1
        finally:
            end(first)
        assert first.returncode == 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as third:
        try:
            assert third.stdout is not None
            assert json.loads(third.stdout.readline())["data_dir"] == str(data_dir)
        finally:
            end(third)
        assert third.returncode == 0
