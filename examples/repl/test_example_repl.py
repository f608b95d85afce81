"""Types the session, and compares what comes."""

import doctest
from pathlib import Path

import pytest


def test_the_session_shows_what_it_says(telesto_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESTO_URL", telesto_url)
    session = Path(__file__).with_name("session.pycon")
    result = doctest.testfile(str(session), module_relative=False, encoding="utf-8")
    assert result.attempted > 20
    assert result.failed == 0
