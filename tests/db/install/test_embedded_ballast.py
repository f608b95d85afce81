"""The file that is removed when the disk is full."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from telesto.db.embedded.ballast import SIZE_BYTES, Ballast

MIB = 1 << 20


class Disk:
    """How much of a disk is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size_mib: int = 10_000) -> None:
        self.free_mib = size_mib
        monkeypatch.setattr(
            os, "statvfs", lambda _: SimpleNamespace(f_bavail=self.free_mib, f_blocks=size_mib, f_frsize=MIB)
        )


def test_it_is_made_and_removed_as_the_disk_demands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk, path = Disk(monkeypatch), tmp_path / "ballast"
    ballast = Ballast(path)
    assert not ballast.adjust()
    assert path.stat().st_blocks * 512 >= SIZE_BYTES
    disk.free_mib = 64
    assert not ballast.adjust()
    disk.free_mib = 63
    assert ballast.adjust()
    assert not path.exists()
    disk.free_mib = 384
    assert not ballast.adjust()
    assert not path.exists()
    disk.free_mib = 385
    assert not ballast.adjust()
    assert path.exists()


def test_a_small_disk_gives_little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Disk(monkeypatch, 100)
    Ballast(tmp_path / "ballast").adjust()
    assert (tmp_path / "ballast").stat().st_size == 100 * MIB // 6


def test_a_disk_that_has_less_than_it_says_leaves_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    Disk(monkeypatch)
    monkeypatch.setattr(os, "posix_fallocate", fail)
    assert not Ballast(tmp_path / "ballast").adjust()
    assert list(tmp_path.iterdir()) == []
