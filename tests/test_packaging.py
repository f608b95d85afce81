"""What users install: the wheel holds every part, and the client needs nothing but Python."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("protocol", "client", "middleware", "db", "cli", "benchmarks")
DATA = {".sql", ".toml", ".mako", ".typed", ".json"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # A copy, because building leaves folders behind.
    source = folder / "source"
    _run("git", "clone", "--quiet", str(ROOT), str(source))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run(*build, "--wheel-dir", str(folder), str(source))
    return next(folder.glob("telesto_mq-*.whl"))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    held = {name.removeprefix("telesto/") for name in zipfile.ZipFile(wheel).namelist()}
    tracked = _run("git", "-C", str(ROOT), "ls-files", *PARTS).splitlines()
    expected = {
        name
        for name in tracked
        if Path(name).suffix in DATA | {".py"} and not name.startswith("protocol/spec/released/")
    }
    assert expected - held == set()


def test_the_client_runs_without_any_dependency(wheel: Path, tmp_path: Path) -> None:
    # Unpacked, as an installer does: a namespace package cannot be imported from an archive.
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    code = "import telesto.client, sys; print(telesto.client.AsyncTelestoClient.__name__)"
    assert "AsyncTelestoClient" in _run(
        str(python), "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); {code}"
    )
