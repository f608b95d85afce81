import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import psycopg
import pytest
import trustme

from command_line import TIMEOUT_S, CommandLine
from faults.waiting import wait_until
from telesto.db.embedded.server import EmbeddedServer


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    told: dict[str, object] = json.loads(process.stdout.readline())
    return told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_serves_until_a_signal(
    bare_telesto: CommandLine, database_url: str, number: signal.Signals, processes: str
) -> None:
    arguments = ("serve", "--database-url", database_url, "--port", "0", "--processes", processes, "--json")
    with bare_telesto.started(*arguments) as process:
        url = str(_first_line(process)["url"])
        telesto = CommandLine(bare_telesto.home, url)
        assert telesto.objects("ping")[0]["url"] == url
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0


def _found_by_shell(setting: str) -> str:
    """Which `telesto` a shell finds after `setting` was typed."""
    shell = ["/bin/sh", "-c", f"{setting}; command -v telesto"]
    return subprocess.run(
        shell, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    ).stdout.strip()


def test_tells_a_newcomer_what_to_do_next(bare_telesto: CommandLine, data_dir: Path) -> None:
    bare_telesto.environment["PATH"] = os.defpath
    with bare_telesto.started("serve", "--data-dir", str(data_dir), "--port", "0") as process:
        assert process.stdout is not None
        said = [process.stdout.readline().decode() for _ in range(8)]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
    assert said[0].startswith("Telesto serves telesto://127.0.0.1:")
    assert str(data_dir) in said[1]
    commands = [line.strip() for line in said[3:]]
    assert _found_by_shell(commands[0]).endswith("/telesto")
    assert commands[1].startswith("export TELESTO_URL=telesto://127.0.0.1:")
    telesto_commands = [command.split() for command in commands[2:]]
    assert [command[0] for command in telesto_commands] == ["telesto"] * 3
    # What is advised works, in that order.
    with bare_telesto.started("serve", "--data-dir", str(data_dir), "--port", "0", "--json") as process:
        telesto = CommandLine(bare_telesto.home, str(_first_line(process)["url"]))
        outputs = [telesto.output(*command[1:]) for command in telesto_commands]
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    assert outputs[-1] == b"hello\n"


@pytest.mark.parametrize("exposed", [False, True])
def test_tells_how_to_log_in_where_everybody_has_to(
    bare_telesto: CommandLine, database_url: str, tmp_path: Path, exposed: bool
) -> None:
    tls = ("--host", "0.0.0.0", *_certificate(tmp_path, trustme.CA()))
    serve = ("serve", "--database-url", database_url, "--port", "0", *(tls if exposed else ()))

    def tried() -> list[str]:
        with bare_telesto.started(*serve, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            said: list[str] = []
            while not said or not said[-1].startswith("telesto get"):
                said.append(process.stdout.readline().decode().strip())
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0
        return [line for line in said if "user" in line.lower()]

    log_in = "export TELESTO_USER=NAME TELESTO_PASSWORD_FILE=FILE  # the file has the password"
    assert tried() == (["telesto user add NAME --administrator", log_in] if exposed else [])
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO telesto.users (name) VALUES ('ops')")
    assert tried() == [log_in]


def test_sigterm_while_the_database_is_waited_for(bare_telesto: CommandLine) -> None:
    with bare_telesto.started(
        "serve", "--database-url", "postgresql://127.0.0.1:1/none", "--port", "0"
    ) as process:
        assert process.stderr is not None
        assert b"cannot reach the database" in process.stderr.readline()
        process.terminate()
        assert process.wait(TIMEOUT_S) == 143


def test_a_data_directory_that_cannot_be_is_told(bare_telesto: CommandLine) -> None:
    said = bare_telesto.error(1, "serve", "--data-dir", "x" * 300, "--port", "0")
    assert "cannot be created (File name too long)" in said


def test_the_log_of_a_database_that_does_not_start_is_shown_line_by_line(
    bare_telesto: CommandLine, data_dir: Path
) -> None:
    with EmbeddedServer(data_dir):
        pass
    with (data_dir / "postgresql" / "user.conf").open("a") as file:
        file.write("shared_buffers = lots\n")
    result = bare_telesto.run("serve", "--data-dir", str(data_dir), "--port", "0")
    assert result.returncode == 1
    first, *lines = result.stderr.decode().splitlines()
    assert first.startswith("telesto: PostgreSQL in ")
    assert first.endswith("did not start; the last lines of its log:")
    assert [line for line in lines if line.startswith("  ") and "shared_buffers" in line]
    assert "\\n" not in result.stderr.decode()


def test_sigterm_while_postgresql_starts_ends_it_too(bare_telesto: CommandLine, data_dir: Path) -> None:
    data_dir.mkdir()
    with bare_telesto.started("serve", "--data-dir", str(data_dir), "--port", "0") as process:
        # An empty directory has everything made in it too, which takes its time.
        assert process.stderr is not None
        for line in process.stderr:  # root first lets others pass, where they may not
            if line.startswith(b"creating a PostgreSQL database"):
                break
        wait_until(lambda: list(data_dir.glob("**/postmaster.pid")) or process.poll() is not None)
        pid_files = list(data_dir.glob("**/postmaster.pid"))
        process.terminate()
        assert process.wait(TIMEOUT_S) in (0, 143)
    assert [path for path in pid_files if path.exists()] == []


def test_second_ctrl_c_ends_at_once(bare_telesto: CommandLine, data_dir: Path) -> None:
    """With a client that stays, the orderly stop takes its grace; the second signal does not wait for it."""
    arguments = ("serve", "--data-dir", str(data_dir), "--port", "0", "--json")
    bare_telesto.environment |= {"TELESTO_GOAWAY_GRACE_S": "600", "TELESTO_LOG_LEVEL": "error"}
    with bare_telesto.started(*arguments) as process:
        host, _, port = str(_first_line(process)["address"]).rpartition(":")
        with socket.create_connection((host, int(port))):
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            while b"a second Ctrl-C" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 130
    assert bare_telesto.output("db", "current", "--data-dir", str(data_dir))


def test_health_is_told_on_the_admin_port(bare_telesto: CommandLine, database_url: str) -> None:
    arguments = ("serve", "--database-url", database_url, "--port", "0", "--admin-port", "0", "--json")
    with bare_telesto.started(*arguments) as process:
        address = _first_line(process)["admin_address"]
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=TIMEOUT_S) as answer:
            assert answer.status == 200


def test_serves_on_when_nobody_reads_what_it_prints(bare_telesto: CommandLine, database_url: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with contextlib.ExitStack() as stack:
        # What is bound and does not listen keeps the port for the service, which may listen there.
        bound = stack.enter_context(socket.socket())
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        arguments = ("serve", "--database-url", database_url, "--port", str(port))
        stack.enter_context(bare_telesto.started(*arguments, stdout=writing, stderr=subprocess.DEVNULL))
        os.close(writing)
        telesto = CommandLine(bare_telesto.home, f"telesto://127.0.0.1:{port}")
        deadline = time.monotonic() + TIMEOUT_S
        while telesto.run("ping").returncode == 3:
            assert time.monotonic() < deadline
        assert telesto.objects("ping", "--count", "2")


def test_port_in_use(bare_telesto: CommandLine, database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for processes in ("1", "2"):
            said = bare_telesto.error(
                5, "serve", "--database-url", database_url, "--port", port, "--processes", processes
            )
            assert f"127.0.0.1:{port}" in said
            assert "in use" in said
            assert "--port" in said


def test_host_that_is_not_ours(bare_telesto: CommandLine, database_url: str) -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        assert host in bare_telesto.error(2, "serve", "--database-url", database_url, "--host", host)


def test_database_that_cannot_be_reached(bare_telesto: CommandLine) -> None:
    bare_telesto.environment["TELESTO_DATABASE_START_S"] = "0.5"
    url = "postgresql://someone:hunter2@127.0.0.1:1/nothing"
    result = bare_telesto.run("serve", "--database-url", url, "--port", "0")
    assert result.returncode == 3
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("; telesto keeps trying for 0.5 s")
    assert all("Connection refused" in line for line in lines)
    assert "hunter2" not in result.stderr.decode()


def test_schema_that_is_missing_names_the_command(bare_telesto: CommandLine, empty_database_url: str) -> None:
    serve = ("serve", "--database-url", empty_database_url, "--port", "0", "--json")
    said = bare_telesto.error(6, *serve)
    assert "there is no Telesto in this database yet: run `telesto db upgrade`" in said
    assert "None" not in said
    with bare_telesto.started(*serve, "--upgrade") as process:
        assert _first_line(process)["address"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--database-url", "mysql://root:hunter2@localhost/x"], "postgresql://"),
        (["--database-url", "postgresql://me:hunter2@localhost/x?hostaddr=::1"], "parameter hostaddr"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--config", "broken.toml"], "not TOML"),
        (["--config", "misspelt.toml"], "prot"),
        (["--config", "wrong.toml"], "max_frame cannot be 1"),
        (["--port", "70000"], "--port"),
    ],
)
def test_wrong_settings(bare_telesto: CommandLine, arguments: list[str], said: str) -> None:
    (bare_telesto.home / "broken.toml").write_text("port = ")
    (bare_telesto.home / "misspelt.toml").write_text("prot = 7001")
    (bare_telesto.home / "wrong.toml").write_text("max_frame = 1")
    message = bare_telesto.error(2, "serve", *arguments)
    assert said in message
    assert "hunter2" not in message


def test_shown_settings_are_a_file_of_settings(bare_telesto: CommandLine) -> None:
    url = "postgresql://someone:hunter2@127.0.0.1/x"
    shown = bare_telesto.output("serve", "--port", "7100", "--database-url", url, "--show-config")
    assert b"hunter2" not in shown
    assert b"port = 7100\n" in shown
    (bare_telesto.home / "again.toml").write_bytes(shown)
    assert bare_telesto.output("serve", "--config", "again.toml", "--show-config") == shown


def test_shown_settings_name_no_database_unless_the_user_did(bare_telesto: CommandLine) -> None:
    assert b"\n# database_url =\n" in bare_telesto.output("serve", "--show-config")


def test_the_url_of_the_embedded_database_is_told(bare_telesto: CommandLine, data_dir: Path) -> None:
    where = ("db", "url", "--data-dir", str(data_dir))
    assert f"no PostgreSQL runs in the data directory {str(data_dir)!r}" in bare_telesto.error(3, *where)
    with bare_telesto.started("serve", "--data-dir", str(data_dir), "--port", "0", "--json") as process:
        _first_line(process)
        bare_telesto.environment["TELESTO_DATA_DIR"] = str(data_dir)
        url = bare_telesto.output("db", "url").decode().strip()
        assert bare_telesto.objects("db", "url") == [{"url": url}]
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM telesto.queues").fetchone() == (0,)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    bare_telesto.error(3, *where)


def test_postgresql_that_dies_is_started_again(bare_telesto: CommandLine, data_dir: Path) -> None:
    arguments = ("serve", "--data-dir", str(data_dir), "--port", "0", "--json")
    with bare_telesto.started(*arguments, stderr=subprocess.DEVNULL) as process:
        telesto = CommandLine(bare_telesto.home, str(_first_line(process)["url"]))
        telesto.output("queue", "create", "kept")
        telesto.output("put", "kept", "still here")
        _kill_postmaster(data_dir)
        deadline = time.monotonic() + TIMEOUT_S
        while (result := telesto.run("get", "kept")).returncode == 3:
            assert time.monotonic() < deadline
        assert result.stdout == b"still here\n"
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def _kill_postmaster(data_dir: Path) -> None:
    from telesto.db.embedded.server import running_url

    url = running_url(data_dir)
    assert url is not None
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting('data_directory')").fetchone()
    assert row is not None
    os.kill(int(Path(row[0], "postmaster.pid").read_text().split()[0]), signal.SIGKILL)


def _certificate(directory: Path, authority: trustme.CA) -> tuple[str, ...]:
    """Writes a certificate for this machine, and returns the options that name it."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    certificate, key = directory / "server.pem", directory / "server.key"
    certificate.write_bytes(issued.cert_chain_pems[0].bytes())
    issued.private_key_pem.write_to_path(key)
    return "--tls-certificate", str(certificate), "--tls-key", str(key)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_serves_by_tls_and_takes_a_new_certificate(
    bare_telesto: CommandLine, database_url: str, tmp_path: Path, processes: str
) -> None:
    first, second = trustme.CA(), trustme.CA()
    arguments = ("serve", "--database-url", database_url, "--port", "0", "--processes", processes, "--json")
    with bare_telesto.started(*arguments, *_certificate(tmp_path, first)) as process:
        url = str(_first_line(process)["url"])
        assert url.startswith("telestos://127.0.0.1:")

        def trusted(authority: trustme.CA) -> bool:
            ca = tmp_path / "ca.pem"
            authority.cert_pem.write_to_path(ca)
            return CommandLine(bare_telesto.home, f"{url}/?tls_ca={ca}").run("ping").returncode == 0

        assert trusted(first)
        assert not trusted(second)
        _certificate(tmp_path, second)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: trusted(second))
        # All processes have it, and nothing was stopped.
        wait_until(lambda: not any(trusted(first) for _ in range(8)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_a_certificate_that_cannot_be_used_is_told_before_anything_starts(
    bare_telesto: CommandLine, data_dir: Path, tmp_path: Path
) -> None:
    _, certificate, _, key = _certificate(tmp_path, trustme.CA())
    Path(key).write_text("no key")
    options = ("--tls-certificate", certificate, "--tls-key", key)
    said = bare_telesto.error(2, "serve", "--data-dir", str(data_dir), *options)
    assert said == f"telesto: cannot use TLS: {key} holds no private key in PEM form\n"
    said = bare_telesto.error(2, "serve", "--data-dir", str(data_dir), "--tls-key", key)
    assert "tls_key needs tls_certificate" in said
    assert not data_dir.exists()
