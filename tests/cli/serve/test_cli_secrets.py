"""Passwords, tokens, keys and bodies appear in nothing that a service and its commands say of themselves.

That no test prints or leaves a password anywhere is searched for after each run (`secret_search`); this is a
service with all that is secret, told to say as much as it can, and the mistakes of its users.
"""

import json
import os
from pathlib import Path

import psycopg
import pytest

from command_line import CommandLine
from faults.service.secured import Secured
from faults.waiting import wait_until
from telesto.client import TelestoClient, TelestoError
from telesto.middleware.security.login import make_verifier

#: In each secret.
WORD = "hunter2"
BODY = f"body {WORD}"
ADD_USER = """
INSERT INTO telesto.users (name, verifier, put, clients) VALUES ('alice', %s, '{orders}', '{*}')
"""


@pytest.fixture
def command(tmp_path: Path) -> CommandLine:
    home = tmp_path / "home"
    home.mkdir()
    return CommandLine(home)


def command_lines() -> str:
    """The arguments of all processes of this machine."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_nothing_that_is_secret_is_said(command: CommandLine, tmp_path: Path, database_url: str) -> None:
    secured = Secured(tmp_path)
    role = f"service_{os.urandom(4).hex()}"
    said: list[str] = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        owner = psycopg.conninfo.conninfo_to_dict(database_url)
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{WORD}' IN ROLE telesto_middleware".encode())
        connection.execute(ADD_USER, (make_verifier(f"{WORD} alice"),))
        connection.execute("SELECT telesto.create_queue('orders')")
        own_url = f"postgresql://{role}:{WORD}@{owner['host']}:{owner['port']}/{owner['dbname']}"
        key = tmp_path / "password-of-tokens"
        key.write_text(f"{WORD} and thirty-two more bytes for tokens")
        log, audit = tmp_path / "log", tmp_path / "audit"
        command.environment |= {
            "TELESTO_DATABASE_URL": own_url,
            "TELESTO_LOG_LEVEL": "debug",
            "TELESTO_AUDIT_LOG": str(audit),
            "TELESTO_AUDIT_TABLE": "true",
            "TELESTO_JWT_KEY_FILE": str(key),
            "TELESTO_TRACEBACK": "1",
            **{f"TELESTO_{name.upper()}": str(value) for name, value in secured.settings.items()},
        }
        said.append(command.output("serve", "--show-config", "--json").decode())
        with (
            log.open("wb") as stderr,
            command.started("serve", "--port", "0", "--admin-port", "0", "--json", stderr=stderr) as process,
        ):
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["url"].partition("://")[2]
            assert WORD not in command_lines()
            good = secured.url(address).replace("tester:", "alice:")
            good = f"{good.partition('://')[0]}://alice:{WORD}%20alice@{good.rpartition('@')[2]}"
            for url in (
                good,
                good.replace(f"{WORD}%20alice", f"{WORD}-wrong"),
                good.replace("alice:", "nobody:"),
                good.replace("telestos", "telesto"),
                good.replace("telestos", "https"),
                good.replace("@", "@@"),
                good.replace("tls_ca", "tls_cert"),
            ):
                for arguments in (("put", "orders", BODY), ("queue", "list"), ("get", "orders")):
                    command.environment["TELESTO_URL"] = url
                    result = command.run(*arguments)
                    assert (result.returncode == 0) == (url == good and arguments[0] != "get"), result
                    said += [result.stdout.decode(), result.stderr.decode()]
                try:
                    with TelestoClient(url) as client:
                        said.append(repr(client))
                        client.queue("orders").put(BODY)
                except (TelestoError, ValueError) as error:
                    said += [str(error), repr(error), repr(error.__cause__), repr(error.__context__)]
            wait_until(lambda: b"login_failed" in log.read_bytes() and b"login_failed" in audit.read_bytes())
            process.terminate()
            assert process.wait(60) == 0
        for broken in (
            own_url.replace(f"{owner['port']}", "1"),
            own_url.replace(f":{WORD}@", f":{WORD}-no@"),
        ):
            command.environment["TELESTO_DATABASE_URL"] = broken
            for arguments in (("serve", "--port", "0"), ("db", "current"), ("user", "list"), ("audit",)):
                result = command.run(*arguments)
                said += [result.stdout.decode(), result.stderr.decode()]
        kept = connection.execute("SELECT string_agg(audit::text, ' ') FROM telesto.audit").fetchone()
        connection.execute(f"DROP ROLE {role}".encode())
    said += [log.read_text(), audit.read_text(), str(kept)]
    leaking = [text for text in said if WORD in text]
    assert not leaking
    # What is to be searched is there.
    assert len([text for text in said if text]) > 20
    assert "alice" in log.read_text()
