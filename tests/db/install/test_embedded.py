"""The embedded server as its owner sees it: starting, stopping, crashing, finding its data again."""

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from faults.waiting import wait_until
from telesto.db.embedded import server as embedded
from telesto.db.embedded.server import (
    BinariesMissingError,
    DataDirectoryError,
    DataDirectoryInUseError,
    DataDirectoryVersionError,
    EmbeddedServer,
    EmbeddedServerError,
    StartFailedError,
    running_url,
)

OWNER = Path(__file__).with_name("embedded_owner.py")
PATIENCE_S = 30.0
NOBODY = 65534
SMALL = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}


@pytest.fixture(scope="module")
def made_dir(module_data_dir: Path) -> Path:
    """Give a data directory that has been initialised once, to be copied."""
    with EmbeddedServer(module_data_dir, settings=SMALL) as server:
        query(server.url, "CREATE TABLE kept AS SELECT 'intact' AS state")
    return module_data_dir


@pytest.fixture
def used_dir(made_dir: Path, data_dir: Path) -> Path:
    """Give a data directory of one's own that holds data and is not in use."""
    shutil.copytree(made_dir, data_dir)
    for copied, original in zip(sorted(data_dir.rglob("*")), sorted(made_dir.rglob("*")), strict=True):
        found = original.stat()
        os.chown(copied, found.st_uid, found.st_gid)
    return data_dir


def query(url: str, statement: str) -> Any:
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchone()[0] if cursor.description else None  # type: ignore[index]


def state_of(server: EmbeddedServer) -> str:
    return str(query(server.url, "SELECT state FROM kept"))


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended (a zombie whose parent does not care counts as ended)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def as_nobody(scratch: Path) -> dict[str, Any]:
    """Return what makes a process one of an ordinary user, who finds the package through `scratch`."""
    scratch.chmod(0o755)
    (scratch / "telesto").symlink_to(Path(embedded.__file__).parents[2])
    path = f"{scratch}:{sysconfig.get_path('purelib')}"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": environment}


def interpreter_for(options: dict[str, Any]) -> str:
    """Return an interpreter that another user may run, which the one of the tests need not be."""
    for candidate in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        try:
            tried = subprocess.run(
                [candidate, "-c", "import telesto.db.embedded.server"],
                capture_output=True,
                timeout=60,
                check=False,
                **options,
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return candidate
    pytest.skip("no interpreter here is open to other users")


@contextmanager
def owner_process(
    directory: Path, interpreter: str = sys.executable, **options: Any
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    owner = subprocess.Popen(
        [interpreter, str(OWNER), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    with owner:
        try:
            assert owner.stdout is not None
            assert owner.stderr is not None
            line = owner.stdout.readline()
            assert line, owner.stderr.read()
            yield owner, json.loads(line)
        finally:
            owner.kill()


class TestFirstStart:
    def test_makes_a_database_that_is_asked_for_a_password(self, data_dir: Path) -> None:
        with EmbeddedServer(data_dir, settings=SMALL) as server:
            parts = urlsplit(server.url)
            assert parts.hostname == "127.0.0.1"
            assert query(server.url, "SELECT current_database()") == "telesto"
            wrong = parts._replace(netloc=f"telesto:wrong@127.0.0.1:{parts.port}").geturl()
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                query(wrong, "SELECT 1")
            assert parts.password
            assert stat.S_IMODE((data_dir / "password").stat().st_mode) == 0o600
            assert query(
                server.url, "SELECT rolpassword FROM pg_authid WHERE rolname = 'telesto'"
            ).startswith("SCRAM-SHA-256$")

    def test_listens_on_the_loopback_address_only(self, data_dir: Path) -> None:
        with EmbeddedServer(data_dir, settings=SMALL) as server:
            assert query(server.url, "SHOW listen_addresses") == "127.0.0.1"
            assert query(server.url, "SHOW unix_socket_directories") == ""
            assert query(server.url, "SELECT host(inet_server_addr())") == "127.0.0.1"

    def test_keeps_what_durability_rests_on(self, data_dir: Path) -> None:
        with EmbeddedServer(data_dir) as server:
            shown = {
                name: query(server.url, f"SHOW {name}")
                for name in ("fsync", "synchronous_commit", "full_page_writes", "jit", "tcp_user_timeout")
            }
        assert shown == {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "jit": "off",
            "tcp_user_timeout": "5000",
        }

    def test_leaves_nothing_half_made_when_initdb_fails(self, data_dir: Path, tmp_path: Path) -> None:
        broken = tmp_path / "bin"
        broken.mkdir()
        tmp_path.chmod(0o755)
        for name, body in (
            ("postgres", "echo 'postgres (PostgreSQL) 18.0'"),
            ("initdb", "echo no luck; exit 1"),
        ):
            (broken / name).write_text(f"#!/bin/sh\n{body}\n")
            (broken / name).chmod(0o755)
        with pytest.raises(StartFailedError, match="no luck"):
            EmbeddedServer(data_dir, binaries=broken).start()
        assert sorted(path.name for path in data_dir.iterdir()) == ["owner.lock", "password"]
        with EmbeddedServer(data_dir, settings=SMALL) as server:
            assert query(server.url, "SELECT 1") == 1

    def test_removes_what_a_killed_first_start_left(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o711)
        (data_dir / "postgresql.new-1").mkdir()
        (data_dir / "postgresql.new-1" / "PG_VERSION").write_text("18\n")
        with EmbeddedServer(data_dir, settings=SMALL):
            assert not (data_dir / "postgresql.new-1").exists()


class TestLaterStart:
    def test_finds_its_data_and_its_port_again(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server:
            first = server.url
            assert state_of(server) == "intact"
        with EmbeddedServer(used_dir) as server:
            assert server.url == first

    def test_takes_another_port_when_the_old_one_is_taken(self, used_dir: Path) -> None:
        port = int((used_dir / "port").read_text())
        with socket.create_server(("127.0.0.1", port)), EmbeddedServer(used_dir) as server:
            assert urlsplit(server.url).port != port
            assert state_of(server) == "intact"

    def test_tries_again_when_the_port_is_taken_under_its_hands(
        self, used_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as rival:
            answers = iter([rival.getsockname()[1]])
            really_free = embedded.free_port
            monkeypatch.setattr(
                embedded, "free_port", lambda preferred: next(answers, None) or really_free(None)
            )
            with EmbeddedServer(used_dir) as server:
                assert state_of(server) == "intact"

    def test_the_user_settings_win_and_stay(self, used_dir: Path) -> None:
        with (used_dir / "postgresql" / "user.conf").open("a") as file:
            file.write("work_mem = '7MB'\njit = on\n")
        for _ in range(2):
            with EmbeddedServer(used_dir) as server:
                assert query(server.url, "SHOW work_mem") == "7MB"
                assert query(server.url, "SHOW jit") == "on"

    def test_the_user_settings_cannot_move_the_server(self, used_dir: Path) -> None:
        with (used_dir / "postgresql" / "user.conf").open("a") as file:
            file.write("port = 1\nlisten_addresses = '*'\n")
        with EmbeddedServer(used_dir) as server:
            assert query(server.url, "SHOW listen_addresses") == "127.0.0.1"

    def test_own_settings_are_rewritten(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir, settings={"work_mem": "9MB"}) as server:
            assert query(server.url, "SHOW work_mem") == "9MB"
        with EmbeddedServer(used_dir) as server:
            assert query(server.url, "SHOW work_mem") == "4MB"

    def test_a_lost_password_is_replaced(self, used_dir: Path) -> None:
        old = (used_dir / "password").read_text()
        (used_dir / "password").unlink()
        with EmbeddedServer(used_dir) as server:
            assert state_of(server) == "intact"
        assert (used_dir / "password").read_text() != old

    def test_the_log_is_in_the_data_directory_and_bounded(self, used_dir: Path) -> None:
        for day in range(10, 30):
            (used_dir / "log" / f"postgresql-202001{day}-000000.log").write_text("old\n")
        with EmbeddedServer(used_dir):
            pass
        files = sorted(path.name for path in (used_dir / "log").iterdir())
        assert len(files) <= 11
        assert "postgresql-20200110-000000.log" not in files
        assert "database system is shut down" in (used_dir / "log" / files[-1]).read_text()

    def test_the_log_never_shows_a_statement(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server, pytest.raises(psycopg.errors.UndefinedTable):
            query(server.url, "SELECT 'a body of a message' FROM missing")
        text = "".join(path.read_text() for path in (used_dir / "log").iterdir())
        assert 'relation "missing" does not exist' in text
        assert "a body of a message" not in text


class TestStop:
    def test_an_open_transaction_does_not_hold_it_up(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server:
            connection = psycopg.connect(server.url)
            connection.execute("SELECT 1")
            pid = server.pid
        assert pid is not None
        assert is_gone(pid)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()

    def test_stopping_twice_and_starting_again(self, used_dir: Path) -> None:
        server = EmbeddedServer(used_dir)
        server.start()
        server.start()
        server.stop()
        server.stop()
        assert not server.running
        assert server.pid is None
        with pytest.raises(EmbeddedServerError, match="has not been started"):
            _ = server.url
        server.start()
        try:
            assert state_of(server) == "intact"
        finally:
            server.stop()

    def test_a_forked_child_leaves_the_server_alone(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server:
            child = os.fork()
            if child == 0:
                server.stop()
                os._exit(0)
            os.waitpid(child, 0)
            assert state_of(server) == "intact"

    def test_the_thread_that_started_it_may_end(self, used_dir: Path) -> None:
        server = EmbeddedServer(used_dir)
        starter = threading.Thread(target=server.start)
        starter.start()
        starter.join()
        try:
            # A server bound to that thread would have been told to shut down; it must not even begin to.
            assert state_of(server) == "intact"
            log = sorted((used_dir / "log").iterdir())[-1].read_text().rpartition("ready to accept")[2]
            assert "shutdown request" not in log
        finally:
            server.stop()

    async def test_from_asyncio(self, used_dir: Path) -> None:
        server = EmbeddedServer(used_dir)
        await asyncio.to_thread(server.start)
        try:
            assert await asyncio.to_thread(state_of, server) == "intact"
        finally:
            await asyncio.to_thread(server.stop)


class TestCrash:
    def test_the_server_goes_with_a_killed_owner(self, used_dir: Path) -> None:
        with owner_process(used_dir) as (owner, told):
            owner.send_signal(signal.SIGKILL)
            wait_until(lambda: is_gone(told["postmaster"]))

    def test_the_next_owner_takes_over_from_a_killed_one(self, used_dir: Path) -> None:
        with owner_process(used_dir) as (owner, told):
            query(told["url"], "UPDATE kept SET state = 'changed'")
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            with EmbeddedServer(used_dir) as server:
                assert state_of(server) == "changed"
                assert server.url == told["url"]

    def test_the_next_owner_ends_a_server_that_did_not_hear_of_it(self, used_dir: Path) -> None:
        with owner_process(used_dir) as (owner, told):
            os.kill(told["postmaster"], signal.SIGSTOP)
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            revive = threading.Timer(0.3, os.kill, (told["postmaster"], signal.SIGCONT))
            revive.start()
            with EmbeddedServer(used_dir) as server:
                assert server.pid != told["postmaster"]
                assert state_of(server) == "intact"
            revive.join()

    def test_a_killed_postmaster_is_noticed_and_started_again(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server:
            query(server.url, "UPDATE kept SET state = 'durable'")
            url, pid = server.url, server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not server.running)
            server.start()
            assert server.url == url
            assert state_of(server) == "durable"

    def test_backends_without_a_postmaster_do_not_stop_the_next_start(
        self, used_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("telesto.db.embedded.process.ORPHANS_GRACE_S", 0.2)
        with EmbeddedServer(used_dir) as server:
            busy = psycopg.connect(server.url)
            backend = busy.info.backend_pid
            os.kill(backend, signal.SIGSTOP)
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not server.running)
            server.start()
            assert is_gone(backend)
            assert state_of(server) == "intact"
            busy.close()

    def test_a_pid_file_whose_number_was_given_to_another_program(self, used_dir: Path) -> None:
        lines = [
            str(os.getppid()),
            str(used_dir / "postgresql"),
            "1",
            "5432",
            "",
            "127.0.0.1",
            "1 1",
            "ready",
        ]
        pid_file = used_dir / "postgresql" / "postmaster.pid"
        pid_file.write_text("\n".join(lines) + "\n")
        with EmbeddedServer(used_dir) as server:
            assert state_of(server) == "intact"

    def test_a_pid_file_that_nobody_owns(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir):
            text = (used_dir / "postgresql" / "postmaster.pid").read_text()
        pid_file = used_dir / "postgresql" / "postmaster.pid"
        pid_file.write_text(text)
        found = (used_dir / "postgresql").stat()
        os.chown(pid_file, found.st_uid, found.st_gid)
        with EmbeddedServer(used_dir) as server:
            assert state_of(server) == "intact"


class TestOneOwner:
    def test_a_second_owner_is_told_who_the_first_is(self, used_dir: Path) -> None:
        with owner_process(used_dir) as (owner, told):
            with pytest.raises(DataDirectoryInUseError, match=f"process {owner.pid}") as caught:
                EmbeddedServer(used_dir).start()
            assert caught.value.pid == owner.pid
            assert query(told["url"], "SELECT state FROM kept") == "intact"

    def test_also_within_one_process(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server:
            with pytest.raises(DataDirectoryInUseError) as caught:
                EmbeddedServer(used_dir).start()
            assert caught.value.pid == os.getpid()
            assert state_of(server) == "intact"

    def test_an_owner_that_ends_orderly_frees_the_directory(self, used_dir: Path) -> None:
        with owner_process(used_dir) as (owner, told):
            owner.communicate("")
            assert owner.returncode == 0
            assert is_gone(told["postmaster"])
            with EmbeddedServer(used_dir) as server:
                assert state_of(server) == "intact"

    def test_a_tool_finds_the_running_server(self, used_dir: Path) -> None:
        assert running_url(used_dir) is None
        with EmbeddedServer(used_dir) as server:
            assert running_url(used_dir) == server.url
        assert running_url(used_dir) is None


class TestClearErrors:
    def test_no_binaries(self, data_dir: Path, tmp_path: Path) -> None:
        with pytest.raises(BinariesMissingError, match="no PostgreSQL server in"):
            EmbeddedServer(data_dir, binaries=tmp_path).start()

    def test_package_not_installed(self, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("telesto.db.embedded.binaries.PACKAGE", "no_such_package")
        with pytest.raises(BinariesMissingError, match="pip install"):
            EmbeddedServer(data_dir).start()

    def test_another_major_version(self, used_dir: Path) -> None:
        (used_dir / "postgresql" / "PG_VERSION").write_text("12\n")
        with pytest.raises(DataDirectoryVersionError, match=r"made by PostgreSQL 12, but PostgreSQL \d+"):
            EmbeddedServer(used_dir).start()

    def test_a_file_in_its_place(self, data_dir: Path) -> None:
        data_dir.write_text("")
        with pytest.raises(DataDirectoryError, match="is not a directory"):
            EmbeddedServer(data_dir).start()

    def test_a_cluster_of_somebody_else(self, data_dir: Path) -> None:
        data_dir.mkdir()
        (data_dir / "PG_VERSION").write_text("18\n")
        with pytest.raises(DataDirectoryError, match="give Telesto a directory of its own"):
            EmbeddedServer(data_dir).start()

    def test_a_part_of_a_cluster_is_left_alone(self, data_dir: Path) -> None:
        rest = data_dir / "postgresql" / "pg_wal"
        rest.mkdir(parents=True)
        with pytest.raises(DataDirectoryError, match="has files, but no PG_VERSION"):
            EmbeddedServer(data_dir).start()
        assert rest.is_dir()
        assert not list(data_dir.glob("postgresql.new-*"))

    def test_not_enough_space(self, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("telesto.db.embedded.cluster.FREE_BYTES_MIN", 1 << 62)
        with pytest.raises(DataDirectoryError, match="bytes free"):
            EmbeddedServer(data_dir).start()

    def test_a_setting_that_postgresql_refuses_shows_its_log(self, used_dir: Path) -> None:
        with (used_dir / "postgresql" / "user.conf").open("a") as file:
            file.write("no_such_setting = 1\n")
        with pytest.raises(StartFailedError, match="no_such_setting"):
            EmbeddedServer(used_dir).start()
        (used_dir / "postgresql" / "user.conf").write_text("")
        with EmbeddedServer(used_dir) as server:
            assert state_of(server) == "intact"

    def test_a_failure_after_the_log_was_opened_shows_it_too(self, used_dir: Path) -> None:
        for segment in (used_dir / "postgresql" / "pg_wal").glob("0*"):
            segment.unlink()
        with pytest.raises(StartFailedError, match="could not locate a valid checkpoint record"):
            EmbeddedServer(used_dir).start()

    def test_a_server_that_takes_too_long(self, used_dir: Path) -> None:
        with pytest.raises(StartFailedError, match="was not ready after 0 s"):
            EmbeddedServer(used_dir, start_timeout_s=0.0).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
class TestAccounts:
    def test_root_runs_it_as_another_account(self, used_dir: Path) -> None:
        with EmbeddedServer(used_dir) as server:
            owner = Path(f"/proc/{server.pid}").stat().st_uid
            assert owner == (used_dir / "postgresql").stat().st_uid
            assert owner != 0

    def test_an_ordinary_user(self, data_dir: Path) -> None:
        os.chown(data_dir.parent, NOBODY, NOBODY)
        options = as_nobody(data_dir.parent)
        with owner_process(data_dir, interpreter_for(options), **options) as (_, told):
            assert query(told["url"], "SELECT 1") == 1
            assert Path(f"/proc/{told['postmaster']}").stat().st_uid == NOBODY

    def test_an_ordinary_user_is_told_what_is_not_writable(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o755)
        result = self.run_as_nobody(data_dir)
        assert "DataDirectoryError" in result.stderr
        assert "is not writable for this user" in result.stderr

    @pytest.mark.parametrize("removed", ["owner.lock", "port"])
    def test_an_ordinary_user_is_told_whose_data_it_is(self, used_dir: Path, removed: str) -> None:
        os.chown(used_dir, NOBODY, NOBODY)
        (used_dir / removed).unlink()
        result = self.run_as_nobody(used_dir)
        assert "start the service as that user" in result.stderr

    def run_as_nobody(self, data_dir: Path) -> subprocess.CompletedProcess[str]:
        options = as_nobody(data_dir.parent)
        command = [interpreter_for(options), str(OWNER), str(data_dir)]
        return subprocess.run(
            command, input="", capture_output=True, text=True, timeout=60, check=False, **options
        )

    def test_a_directory_that_others_cannot_pass_is_opened_to_search_only(self, data_dir: Path) -> None:
        data_dir.parent.chmod(0o700)
        with EmbeddedServer(data_dir, settings=SMALL) as server:
            assert query(server.url, "SELECT 1") == 1
        assert stat.S_IMODE(data_dir.parent.stat().st_mode) == 0o701
