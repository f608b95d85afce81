import gzip
from pathlib import Path

import pytest

from telesto.cli.demo import source
from telesto.cli.demo.source import digest, lines_of, prepare_text
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError

TEXT = b"one\n\ntwo\r\n\x00\xff three"


def _prepared(file: Path | None, tmp_path: Path) -> source.Text:
    directory = tmp_path / "scratch"
    directory.mkdir()
    return prepare_text(file, directory)


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    return path


def test_lines_joined_are_the_file(text_file: Path, tmp_path: Path) -> None:
    text = _prepared(text_file, tmp_path)
    lines = list(lines_of(text.path))
    assert b"".join(lines) == TEXT
    assert len(lines) == 4
    assert list(text.digests) == [digest(line) for line in lines]
    assert (text.size_bytes, text.origin) == (len(TEXT), str(text_file))


def test_zipped_text_is_unzipped(tmp_path: Path) -> None:
    path = tmp_path / "changelog.gz"
    path.write_bytes(gzip.compress(TEXT))
    assert _prepared(path, tmp_path).path.read_bytes() == TEXT


@pytest.mark.parametrize(
    "content", [TEXT, gzip.compress(TEXT * 100)[:-20], b""], ids=["not zipped", "cut off", "empty"]
)
def test_broken_zip_is_shipped_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(content)
    assert _prepared(path, tmp_path).path.read_bytes() == content


def test_endless_line_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LINE_BYTES_MAX", 10)
    path = tmp_path / "garbage"
    path.write_bytes(b"x" * 25)
    assert [len(line) for line in lines_of(path)] == [10, 10, 5]


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "missing", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(CommandError, match=problem) as caught:
            prepare_text(path, tmp_path)
        assert str(path) in caught.value.message
        assert caught.value.code is ExitCode.USAGE


def test_default_is_the_largest_text_unzipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, zipped = tmp_path / "log", tmp_path / "changelog.Debian.gz"
    log.write_bytes(b"x" * 1000)
    zipped.write_bytes(gzip.compress(b"x" * 2000))
    monkeypatch.setattr(source, "SYSTEM_LOG", log)
    monkeypatch.setattr(source, "CHANGELOGS", str(tmp_path / "*.Debian.gz"))
    monkeypatch.setattr(source, "OWN_TEXTS", ())
    assert source.default_text() == zipped
    zipped.unlink()
    assert source.default_text() == log
    log.unlink()
    with pytest.raises(CommandError, match="name a file"):
        source.default_text()
