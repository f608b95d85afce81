"""Settings: from a file, the environment and the command line, in this order."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from telesto.middleware.common.service_links import service_links
from telesto.middleware.common.settings import ServerSettings


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "telesto.toml"
    path.write_text('port = 7100\nmax_batch = 100\nquantum = 7\nhost = "0.0.0.0"\n')
    return path


def test_later_sources_win(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESTO_MAX_BATCH", "200")
    monkeypatch.setenv("TELESTO_QUANTUM", "9")
    settings = ServerSettings.load(config, quantum=11, port=None)
    assert (settings.host, settings.port, settings.max_batch, settings.quantum) == ("0.0.0.0", 7100, 200, 11)


def test_the_password_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESTO_DATABASE_URL", "postgresql://telesto:hunter2@localhost/telesto")
    settings = ServerSettings.load()
    assert "hunter2" not in repr(settings)
    assert "hunter2" in settings.database_url.get_secret_value()


def test_a_slip_of_the_pen_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "telesto.toml"
    path.write_text("max_bacth = 100\n")
    with pytest.raises(ValueError, match="no setting named max_bacth"):
        ServerSettings.load(path)


@pytest.mark.parametrize(
    "values",
    [
        {"port": 70_000},
        {"max_batch": 0},
        {"max_frame": 1_000},
        {"max_frame": 1 << 20, "max_body_bytes": 1 << 20},
        {"write_low_bytes": 1 << 21},
        {"heartbeat_timeout_s": 1.0},
        {"log_level": "loud"},
        {"advertised_address": "mq.example"},
        {"advertised_address": "::1:7001"},
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.load(**values)


def test_every_setting_is_described_and_named_with_its_unit() -> None:
    for name, field in ServerSettings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_settings_do_not_change() -> None:
    settings = ServerSettings.load()
    with pytest.raises(ValidationError):
        settings.port = 1  # type: ignore[misc]


def links(service: str, host: str, address: str, protocol: str = "TCP") -> dict[str, str]:
    """What Kubernetes sets for a service with two ports."""
    link = f"{protocol.lower()}://{address}:7001"
    return {
        f"{service}_SERVICE_HOST": host,
        f"{service}_SERVICE_PORT": "7001",
        f"{service}_SERVICE_PORT_ADMIN": "9001",
        f"{service}_PORT": link,
        f"{service}_PORT_7001_{protocol}": link,
        f"{service}_PORT_7001_{protocol}_ADDR": host,
        f"{service}_PORT_9001_{protocol}": f"{protocol.lower()}://{address}:9001",
    }


@pytest.mark.parametrize(
    "found",
    [
        links("TELESTO", "10.0.0.1", "10.0.0.1"),
        links("TELESTO", "fd00::1", "[fd00::1]"),
        links("TELESTO_ADMIN", "10.0.0.1", "10.0.0.1", "UDP"),
        links("TELESTO", "10.0.0.1", "10.0.0.1") | links("TELESTO_ADMIN", "10.0.0.2", "10.0.0.2"),
    ],
)
def test_links_to_services_are_found(found: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"TELESTO_HOST": "::1", "TELESTO_MAX_BATCH": "9", "OTHER_SERVICE_HOST": "10.0.0.1"}
    assert service_links(found | settings) == found.keys()
    for name, value in (found | settings).items():
        monkeypatch.setenv(name, value)
    loaded = ServerSettings.load()
    assert (loaded.host, loaded.port, loaded.admin_port, loaded.max_batch) == ("::1", 7001, None, 9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TELESTO_SERVICE_HOST", "10.0.0.2"),
        ("TELESTO_SERVICE_PORT", "7002"),
        ("TELESTO_PORT_7001_TCP", "tcp://10.0.0.2:7001"),
    ],
)
def test_links_that_do_not_agree_are_none(name: str, value: str) -> None:
    changed = links("TELESTO", "10.0.0.1", "10.0.0.1") | {name: value}
    assert service_links(changed) == set()
    del changed[name]
    assert service_links(changed) == set()


def test_a_port_that_is_set_in_place_of_the_link_is_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (links("TELESTO", "10.0.0.1", "10.0.0.1") | {"TELESTO_PORT": "7002"}).items():
        monkeypatch.setenv(name, value)
    assert ServerSettings.load().port == 7002
