"""The rules for Prometheus: they ask for what a middleware exports, and the documentation says what to do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from admin_port import fetch
from telesto.middleware.server import MiddlewareServer

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "telesto.rules.yml"
OPERATIONS = ROOT / "docs" / "how-to" / "operations.md"
#: Exported with TLS only, and of each reason once there is one.
NOT_AT_ONCE = {"telesto_tls_certificate_left_seconds", "telesto_failed_logins_total", "telesto_refused_total"}


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.settings(admin_port=0)
async def test_the_rules_ask_for_what_is_exported(server: MiddlewareServer) -> None:
    _, body = await fetch(server.admin_address, b"GET /metrics HTTP/1.1\r\n\r\n")
    exported = set(re.findall(r"^([a-z_]+)[ {]", body.decode(), re.MULTILINE))
    asked = {name for rule in rules() for name in re.findall(r"\b(?:telesto|process)_[a-z_]+", rule["expr"])}
    assert len(asked) > 10
    assert asked - exported == NOT_AT_ONCE
    described = OPERATIONS.read_text()
    assert [name for name in exported | asked if name.startswith("telesto_") and name not in described] == []


def test_the_documentation_says_what_to_do_for_each_alert() -> None:
    described = re.findall(r"^\| `(Telesto\w+)` \|", OPERATIONS.read_text(), re.MULTILINE)
    assert described == [rule["alert"] for rule in rules()]


def test_prometheus_takes_the_rules_and_raises_and_clears_the_alerts() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    for command in (["check", "rules", RULES.name], ["test", "rules", "telesto.rules.test.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=RULES.parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
