"""The settings of the embedded server: how they follow the memory, and how they are written."""

from pathlib import Path

import pytest

from telesto.db.embedded import settings
from telesto.db.embedded.settings import memory_mib, queue_settings, settings_text, shared_buffers_mib


@pytest.mark.parametrize(
    ("memory", "buffers"), [(256, 128), (512, 128), (1024, 256), (4096, 1024), (8192, 2048), (65536, 2048)]
)
def test_the_cache_is_a_quarter_of_the_memory_within_bounds(memory: int, buffers: int) -> None:
    assert shared_buffers_mib(memory) == buffers
    assert queue_settings(memory, 100_000)["shared_buffers"] == f"{buffers}MB"


@pytest.mark.parametrize(
    ("free", "largest", "kept"),
    [(400, 64, 32), (2_000, 200, 100), (100_000, 4096, 256), (4_000_000, 4096, 256)],
)
def test_the_write_ahead_log_is_a_tenth_of_what_is_free_within_bounds(
    free: int, largest: int, kept: int
) -> None:
    settings = queue_settings(1024, free)
    assert (settings["max_wal_size"], settings["min_wal_size"]) == (f"{largest}MB", f"{kept}MB")


@pytest.mark.parametrize("text", ["max\n", ""])
def test_without_a_limit_the_memory_is_the_machine_s(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(text)
    monkeypatch.setattr(settings, "CGROUP_LIMIT", limit)
    limited = memory_mib()
    monkeypatch.setattr(settings, "CGROUP_LIMIT", tmp_path / "missing")
    assert memory_mib() == limited


def test_a_container_s_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{64 << 20}\n")
    monkeypatch.setattr(settings, "CGROUP_LIMIT", limit)
    assert memory_mib() == 64


def test_values_are_quoted() -> None:
    text = settings_text({"log_line_prefix": "it's %m "})
    assert text.endswith("log_line_prefix = 'it''s %m '\n")
