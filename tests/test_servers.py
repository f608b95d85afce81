"""The suite's own PostgreSQL: which one a release gives, and that its absence is told."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config

import servers
from telesto.db.embedded.binaries import find_binaries, package_directories

ROOT = Path(__file__).resolve().parents[1]
PORT = 54321
NEVER = 1500
"""A release that there will not be."""


@pytest.fixture
def no_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


class FakeDocker(BaseHTTPRequestHandler):
    """As much of a Docker daemon as a container of PostgreSQL needs, in which each command succeeds."""

    protocol_version = "HTTP/1.1"
    created: list[dict[str, Any]]
    removed: list[str]

    def address_string(self) -> str:
        return "test"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self._path()
        if path == "/version":
            self._answer({"ApiVersion": "1.44", "Version": "fake"})
        elif path == "/containers/c1/json":
            ports = {"5432/tcp": [{"HostIp": "0.0.0.0", "HostPort": str(PORT)}]}
            state = {"Status": "running", "Running": True}
            self._answer({"Id": "c1", "State": state, "NetworkSettings": {"Ports": ports}, "Config": {}})
        elif path == "/containers/json":
            self._answer([{"Id": "c1", "Ports": [{"PrivatePort": 5432, "PublicPort": PORT, "Type": "tcp"}]}])
        elif path == "/exec/e1/json":
            self._answer({"ExitCode": 0})
        elif path.startswith("/images/"):
            self._answer({"Id": "i1"})
        elif path == "/networks":
            self._answer([])
        else:
            self._answer("OK")

    def do_POST(self) -> None:
        path = self._path()
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path == "/containers/create":
            self.created.append(json.loads(sent))
            self._answer({"Id": "c1"}, 201)
        elif path == "/containers/c1/exec":
            self._answer({"Id": "e1"}, 201)
        elif path == "/exec/e1/start":
            self.close_connection = True
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.raw-stream")
            self.end_headers()
        else:
            self._answer(None, 204)

    def do_DELETE(self) -> None:
        self.removed.append(self._path())
        self._answer(None, 204)

    def _path(self) -> str:
        path = urlsplit(self.path).path
        return path[path.index("/", 1) :] if path.startswith("/v1") else path

    def _answer(self, content: Any, status: int = 200) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class UnixHTTPServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[FakeDocker]]:
    """A Docker that answers, and writes down what it is asked for."""
    FakeDocker.created, FakeDocker.removed = [], []
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    # The container that tidies up after killed runs.
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    # Tests that run in a container themselves reach others elsewhere.
    monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
    with UnixHTTPServer(f"{tmp_path}/docker.sock", FakeDocker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield FakeDocker
        server.shutdown()
        thread.join()


def test_where_docker_answers_a_release_runs_in_a_container(docker: type[FakeDocker]) -> None:
    source = servers.of_release(17)
    assert source.name == "container postgres:17"
    with source.run() as url:
        parts = urlsplit(url)
        assert (parts.scheme, parts.port, parts.username) == ("postgresql", PORT, "test")
        assert docker.removed == []
    (created,) = docker.created
    assert created["Image"] == "postgres:17"
    assert created["Cmd"][0] == "postgres"
    assert "shared_buffers=128MB" in created["Cmd"]
    assert "max_locks_per_transaction=512" in created["Cmd"]
    assert docker.removed == ["/containers/c1"]


@pytest.mark.usefixtures("no_docker")
def test_without_docker_debians_programs_come_before_the_embedded_ones(tmp_path: Path) -> None:
    newest = find_binaries()
    bin_directory = tmp_path / str(newest.major) / "bin"
    bin_directory.parent.mkdir()
    assert servers.of_release(newest.major, tmp_path).name == f"programs in {newest.directory}"
    bin_directory.symlink_to(newest.directory)
    assert servers.of_release(newest.major, tmp_path).name == f"programs in {bin_directory}"


@pytest.mark.usefixtures("no_docker")
@pytest.mark.parametrize("directory", package_directories(), ids=lambda directory: directory.parent.name)
def test_each_embedded_release_can_be_run_on(directory: Path, tmp_path: Path) -> None:
    release = find_binaries(directory).major
    with servers.of_release(release, tmp_path).run() as url, psycopg.connect(url) as connection:
        assert connection.info.server_version // 10000 == release


@pytest.mark.usefixtures("no_docker")
def test_a_release_that_is_nowhere_is_told_with_all_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(servers.ReleaseMissingError) as raised:
        servers.of_release(NEVER, tmp_path)
    said = str(raised.value)
    assert said.startswith(f"no PostgreSQL {NEVER} for the tests: Docker does not answer (")
    assert f"no PostgreSQL server in {tmp_path}/{NEVER}/bin" in said
    for directory in package_directories():
        assert f"the one in {directory} is {find_binaries(directory).major}" in said


def _pytest(*arguments: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TELESTO"))}
    ended = subprocess.run(
        command, cwd=ROOT, env=kept | environment, capture_output=True, text=True, timeout=240, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_run_says_what_it_ran_on(no_docker: None, tmp_path: Path) -> None:
    release = find_binaries().major
    one = "tests/db/install/test_schema.py::test_the_incarnation_survives_upgrades"
    code, said = _pytest("-n", "2", "--postgres", str(release), one)
    assert code == 0, said
    assert f"These tests ran on PostgreSQL {release}." in said


@pytest.mark.parametrize(
    ("arguments", "environment", "reason"),
    [
        (["--postgres", str(NEVER)], {}, f"no PostgreSQL {NEVER} for the tests"),
        (["--postgres", "14"], {}, "Telesto needs PostgreSQL 15"),
        (["--postgres", "16"], {"TELESTO_TEST_DATABASE_URL": "postgresql://"}, "TELESTO_TEST_DATABASE_URL"),
    ],
)
def test_a_run_that_cannot_be_fails_at_once(
    no_docker: None, arguments: list[str], environment: dict[str, str], reason: str
) -> None:
    code, said = _pytest(*arguments, "tests/db/install/test_schema.py", **environment)
    assert (code, reason in said) == (pytest.ExitCode.USAGE_ERROR, True), said


def test_make_runs_the_tests_of_the_database_and_the_middleware_on_a_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def recipe(*arguments: str) -> list[list[str]]:
        command = ["make", "--dry-run", "--old-file=.venv/dev.stamp", "unit", *arguments]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [line.split("pytest")[1].split() for line in said.splitlines() if "pytest" in line]

    for name in ("POSTGRES", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):
        monkeypatch.delenv(name, raising=False)
    assert recipe() == [["-n", "2"]]
    # Each in a run of its own, as both have a module conftest that their tests import from.
    given = ["-n", "2", "--postgres", "16"]
    assert recipe("POSTGRES=16") == [[*given, "tests/db"], [*given, "tests/middleware"]]
