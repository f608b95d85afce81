"""The search for passwords finds them."""

from pathlib import Path

import pytest

from secret_search import SECRET, leaking_files, pytest_runtest_logreport


def report(*sections: tuple[str, str]) -> pytest.TestReport:
    return pytest.TestReport("a test", ("a", 1, "test"), {}, "passed", None, "call", list(sections))


def test_what_a_test_writes_is_searched() -> None:
    clean, leaking = report(("stdout", "fine")), report(("stdout", "fine"), ("stderr", f"url {SECRET}@host"))
    pytest_runtest_logreport(clean)
    pytest_runtest_logreport(leaking)
    assert (clean.outcome, leaking.outcome) == ("passed", "failed")
    assert "stderr shows a password" in str(leaking.longrepr)


def test_files_are_searched_but_for_those_of_passwords_and_tables(tmp_path: Path) -> None:
    for name in ("password", "log", "deep/er/log", "base/1", "fine"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"fine" if name == "fine" else b"x" * (1 << 20) + SECRET.encode()[:3])
    assert list(leaking_files(tmp_path)) == []
    for name in ("password", "log", "deep/er/log", "base/1"):
        with (tmp_path / name).open("ab") as file:
            file.write(SECRET.encode()[3:])
    found = {str(path.relative_to(tmp_path)) for path in leaking_files(tmp_path)}
    for path in list(leaking_files(tmp_path)):
        path.unlink()
    assert found == {"log", "deep/er/log"}
