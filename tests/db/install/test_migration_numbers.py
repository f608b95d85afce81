"""Two migrations with one number, or a gap in the chain, are found before a database meets them."""

from pathlib import Path

import pytest

from tools.checks.migrations import migration_problems

VERSIONS = Path(__file__).resolve().parents[3] / "db" / "migrations" / "versions"


def write(folder: Path, name: str, revision: str, after: str | None) -> None:
    down = "None" if after is None else f'"{after}"'
    text = f'"""A change."""\n\nrevision = "{revision}"\ndown_revision = {down}\nrollout = "before"\n'
    (folder / name).write_text(text)


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    write(tmp_path, "0001_first.py", "0001", None)
    write(tmp_path, "0002_second.py", "0002", "0001")
    assert migration_problems(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize(
    ("name", "revision", "after", "said"),
    [
        ("0002_twin.py", "0002", "0001", ["0002_twin.py: its number should be 0003"]),
        ("0004_gap.py", "0004", "0002", ["0004_gap.py: its number should be 0003"]),
        ("0003_other.py", "0004", "0002", ['0003_other.py: it should say revision = "0003"']),
        ("0003_branch.py", "0003", "0001", ['0003_branch.py: it should say down_revision = "0002"']),
        ("0003_root.py", "0003", None, ['0003_root.py: it should say down_revision = "0002"']),
        ("third.py", "0003", "0002", ["third.py: the name is not a number of four digits and a word"]),
    ],
)
def test_a_migration_out_of_the_chain_is_told(
    chain: Path, name: str, revision: str, after: str | None, said: list[str]
) -> None:
    write(chain, name, revision, after)
    problems = migration_problems(chain)
    for line in said:
        assert f"db/migrations/versions/{line}" in problems


def test_those_of_the_repository_are_a_chain() -> None:
    assert migration_problems(VERSIONS) == []
