"""As whom `telesto serve` and its middlewares act: on the machine if root starts it, and in the database."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg
import pytest
import trustme

from command_line import TIMEOUT_S, CommandLine
from telesto.db.embedded.server import EmbeddedServer, running_url

NOBODY = 65534
MIDDLEWARES = """
SELECT DISTINCT activity.usename::text, role.rolsuper, pg_has_role(role.oid, 'telesto_middleware', 'USAGE'),
       pg_has_role(role.oid, (SELECT nspowner FROM pg_namespace WHERE nspname = 'telesto'), 'MEMBER')
FROM pg_stat_activity AS activity JOIN pg_roles AS role ON role.oid = activity.usesysid
WHERE activity.application_name LIKE 'telesto %'
"""
FIRST_OPEN_PORT = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    told: dict[str, object] = json.loads(process.stdout.readline())
    return told


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def _serve(data_dir: Path, *options: str) -> tuple[str, ...]:
    return ("serve", "--data-dir", str(data_dir), "--port", "0", "--json", *options)


def _identity(pid: int) -> set[int]:
    """The user ids of a process: real, effective, saved, and of the file system."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {int(number) for line in lines if line.startswith("Uid:") for number in line.split()[1:]}


def _processes(pid: int) -> list[int]:
    """A process and what it has started, directly or not."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _logins(data_dir: Path) -> list[tuple[str, bool, bool, bool]]:
    url = running_url(data_dir)
    assert url is not None
    with psycopg.connect(url) as connection:
        return connection.execute(MIDDLEWARES).fetchall()


def _works(telesto: CommandLine, name: str) -> None:
    telesto.output("queue", "create", name)
    telesto.output("put", name, "hello")
    assert telesto.output("get", name) == b"hello\n"


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_middlewares_of_an_embedded_database_have_only_their_own_rights(
    bare_telesto: CommandLine, data_dir: Path, processes: str
) -> None:
    for name in ("first", "second"):  # the second start has the role already
        with bare_telesto.started(*_serve(data_dir, "--processes", processes)) as process:
            _works(CommandLine(bare_telesto.home, str(_first_line(process)["url"])), name)
            assert _logins(data_dir) == [("telesto_service", False, True, False)]
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def test_the_log_of_the_database_shows_no_password_of_the_middlewares(
    bare_telesto: CommandLine, data_dir: Path
) -> None:
    with EmbeddedServer(data_dir):
        pass
    (data_dir / "postgresql" / "user.conf").write_text("log_statement = all\n")
    with bare_telesto.started(*_serve(data_dir)) as process:
        _first_line(process)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    log = "".join(path.read_text() for path in (data_dir / "log").iterdir())
    said = [line for line in log.splitlines() if "PASSWORD" in line]
    assert said
    assert all("SCRAM-SHA-256$" in line for line in said)


@as_root
@pytest.mark.parametrize("processes", ["1", "2"])
def test_what_root_starts_becomes_the_owner_of_the_data(
    bare_telesto: CommandLine, data_dir: Path, processes: str
) -> None:
    with bare_telesto.started(*_serve(data_dir, "--processes", processes)) as process:
        told = _first_line(process)
        owner = (data_dir / "postgresql").stat().st_uid
        assert owner != 0
        found = _processes(int(str(told["pid"])))
        assert len(found) > 2
        assert {number for pid in found for number in _identity(pid)} == {owner}
        assert {path.stat().st_uid for path in (data_dir, *data_dir.iterdir())} == {owner}
        _works(CommandLine(bare_telesto.home, str(told["url"])), "orders")
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@as_root
def test_data_of_a_directory_that_is_root_s_is_taken_over(bare_telesto: CommandLine, data_dir: Path) -> None:
    """The database is started again, too, for which the account must be able to write everywhere."""
    with EmbeddedServer(data_dir):
        pass
    assert data_dir.stat().st_uid == 0
    assert bare_telesto.output("db", "upgrade", "--data-dir", str(data_dir))
    with bare_telesto.started(*_serve(data_dir), stderr=subprocess.DEVNULL) as process:
        telesto = CommandLine(bare_telesto.home, str(_first_line(process)["url"]))
        _works(telesto, "before")
        pid = int((data_dir / "postgresql" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT_S
        while telesto.run("queue", "create", "after").returncode == 3:
            assert time.monotonic() < deadline
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    with EmbeddedServer(data_dir):  # and root may still use it
        pass


@as_root
def test_a_directory_with_other_files_is_not_given_away(bare_telesto: CommandLine, data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "thesis.txt").write_text("mine")
    said = bare_telesto.error(1, *_serve(data_dir))
    assert "has other files in it ('thesis.txt')" in said
    assert {data_dir.stat().st_uid, (data_dir / "thesis.txt").stat().st_uid} == {0}


@as_root
@pytest.mark.parametrize("trick", ["symlink", "hard link"])
def test_an_account_gets_no_file_of_root_s_by_a_link(
    bare_telesto: CommandLine, data_dir: Path, trick: str
) -> None:
    data_dir.mkdir()
    os.chown(data_dir, NOBODY, NOBODY)
    secret = data_dir.parent / "secret"
    secret.write_text("of root's")
    secret.chmod(0o600)
    if trick == "symlink":
        (data_dir / "start.log").symlink_to(secret)
    else:
        (data_dir / "start.log").hardlink_to(secret)
    result = bare_telesto.run(*_serve(data_dir))
    assert result.returncode == 1
    assert secret.read_text() == "of root's"
    assert secret.stat().st_uid == 0


@as_root
def test_a_key_that_only_root_may_read_is_told(
    bare_telesto: CommandLine, data_dir: Path, authority: trustme.CA
) -> None:
    issued = authority.issue_cert("localhost")
    certificate, key = data_dir.parent / "server.pem", data_dir.parent / "server.key"
    certificate.write_bytes(issued.cert_chain_pems[0].bytes())
    issued.private_key_pem.write_to_path(key)
    certificate.chmod(0o644)
    key.chmod(0o600)
    said = bare_telesto.error(
        2, *_serve(data_dir, "--tls-certificate", str(certificate), "--tls-key", str(key))
    )
    assert f"cannot read {key}: Permission denied; it runs as the account telesto, which owns" in said


@as_root
def test_a_certificate_is_read_again_as_that_account(
    bare_telesto: CommandLine, data_dir: Path, authority: trustme.CA
) -> None:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    both = data_dir.parent / "server.pem"
    both.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    both.chmod(0o600)
    data_dir.mkdir()
    for path in (both, data_dir):
        os.chown(path, NOBODY, NOBODY)
    arguments = _serve(data_dir, "--tls-certificate", str(both))
    with bare_telesto.started(*arguments) as process:
        assert process.stderr is not None
        assert _identity(int(str(_first_line(process)["pid"]))) == {NOBODY}
        process.send_signal(signal.SIGHUP)
        while b"certificate_read" not in process.stderr.readline():
            pass
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@as_root
@pytest.mark.skipif(
    not FIRST_OPEN_PORT.exists() or int(FIRST_OPEN_PORT.read_text()) <= 1, reason="every port is open here"
)
def test_a_port_that_only_root_may_open_is_told(bare_telesto: CommandLine, data_dir: Path) -> None:
    said = bare_telesto.error(2, "serve", "--data-dir", str(data_dir), "--port", "1")
    assert "127.0.0.1:1: Permission denied; it runs as the account telesto, which owns the data" in said
