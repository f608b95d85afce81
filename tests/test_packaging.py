"""What users install: the wheel holds every part, and the client needs only Python until it logs in."""

import os
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import telesto
import telesto.client

ROOT = Path(__file__).parents[1]
PARTS = ("telesto", "protocol", "client", "middleware", "db", "cli", "benchmarks", "tasks", "testing")
DATA = {".sql", ".toml", ".mako", ".typed", ".json"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A copy, because building leaves folders behind; it is called as a clone is by default.
    source = tmp_path_factory.mktemp("source") / "telesto"
    _run("git", "clone", "--quiet", str(ROOT), str(source))
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run(*build, "--wheel-dir", str(folder), str(source))
    return next(folder.glob("telesto_mq-*.whl"))


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    tracked = _run("git", "-C", str(ROOT), "ls-files", *PARTS).splitlines()
    expected = {
        name if name.startswith("telesto/") else f"telesto/{name}"
        for name in tracked
        if Path(name).suffix in DATA | {".py"} and not name.startswith("protocol/spec/released/")
    }
    assert expected - held == set()


def test_the_client_runs_without_any_dependency(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    code = "from telesto import AsyncTelestoClient; print(AsyncTelestoClient.__name__)"
    assert "AsyncTelestoClient" in _run(
        str(python), "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); {code}"
    )


def test_an_editable_install_is_found_from_the_folder_around_the_clone(source: Path, tmp_path: Path) -> None:
    build = "import sys; from setuptools import build_meta; print(build_meta.build_editable(sys.argv[1]))"
    name = _run(sys.executable, "-c", build, str(tmp_path), cwd=source).splitlines()[-1]
    installed = tmp_path / "installed"
    zipfile.ZipFile(tmp_path / name).extractall(installed)
    code = f"import site; site.addsitedir({str(installed)!r}); import telesto; print(*telesto.__path__)"
    found = _run(sys.executable, "-S", "-c", code, cwd=source.parent)
    assert found == f"{source / 'telesto'}\n"


def test_the_package_offers_what_the_client_offers() -> None:
    assert set(telesto.client.__all__) < set(dir(telesto))
    assert all(getattr(telesto, name) is getattr(telesto.client, name) for name in telesto.client.__all__)
    assert telesto.__version__ == metadata.version("telesto-mq")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = telesto.Nothing


def test_other_parts_do_not_import_the_client() -> None:
    code = "from telesto import protocol; import telesto.middleware.server; import sys; "
    code += "print('telesto.client' in sys.modules)"
    assert _run(sys.executable, "-c", code) == "False\n"


def test_a_type_checker_sees_what_the_package_offers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from telesto import AsyncTelestoClient, QueueNotExistingError, QueueSettings, TelestoClient\n"
        "TelestoClient(url=1)\nAsyncTelestoClient(url=1)\nQueueNotExistingError(details=1)\n"
        "client = TelestoClient()\n"
        "queue = client.declare_queue('orders', QueueSettings(lease=60), backoff=0.5, expires=None)\n"
        "client.declare_queue('orders', lease='60')\nclient.create_queue('orders', lease_ms=60)\n"
        "queue.update(expires=None, bury_expired=1)\nQueueSettings(max_messages=1.5)\n"
        "queue.settings().lease = 7\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--explicit-package-bases", "--namespace-packages"]
    checked = subprocess.run(
        [*mypy, str(program)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split(":")[1] for line in checked.stdout.splitlines() if ": error:" in line]
    assert lines == ["2", "3", "4", "7", "8", "9", "10", "11"], checked.stdout


def test_a_star_import_has_all_that_the_client_offers() -> None:
    code = "from telesto import *; import telesto.client; print({*telesto.client.__all__} - {*globals()})"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )
