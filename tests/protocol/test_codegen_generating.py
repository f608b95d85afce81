"""The generated files in the tree are fresh, and the generator notices when they are not."""

import re
import shutil
from pathlib import Path

import pytest

from tools.codegen.__main__ import main
from tools.codegen.blocking import TWINS, mark
from tools.codegen.generating import generate, verify
from tools.codegen.procedures import FOLDER as PROCEDURES
from tools.codegen.procedures import MARK as PROCEDURES_MARK
from tools.codegen.procedures import read_procedures
from tools.codegen.rendering import MARK, render_calls

ROOT = Path(__file__).parents[2]
CALLS = "db/calls.py"
GENERATED = [
    "protocol/enums.py",
    "protocol/error_codes.py",
    "protocol/packets.py",
    "protocol/queue_settings.py",
    "client/queue_settings.py",
    "middleware/security/needed_rights.py",
    "docs/reference/protocol.md",
    *TWINS.values(),
    CALLS,
]
MARKS = {CALLS: PROCEDURES_MARK} | {target: mark(source) for source, target in TWINS.items()}
VECTORS = "protocol/vectors/queue_settings.json"
PARTS = [
    "db/procedures/queues/set_queue_settings.sql",
    *(
        f"db/procedures/sql_queues/{name}.sql"
        for name in ("create_queue", "declare_queue", "setting_columns", "update_queue")
    ),
    "docs/reference/client.md",
]
SOURCES = ["protocol/spec/telesto.toml", "protocol/vectors/takeover.json", *TWINS]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A tree with what files are generated from, and these."""
    for name in [*SOURCES, *PARTS, *GENERATED, VECTORS]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / PROCEDURES, tmp_path / PROCEDURES, dirs_exist_ok=True)
    return tmp_path


def test_the_files_in_the_tree_are_fresh() -> None:
    assert verify(ROOT) == []


def test_generating_again_changes_nothing(copy: Path) -> None:
    assert generate(copy) == []


@pytest.mark.parametrize("name", GENERATED)
def test_every_generated_file_says_so_first(name: str) -> None:
    mark = MARKS.get(name, MARK)
    assert mark in (ROOT / name).read_text(encoding="utf-8").partition("\n")[0]


@pytest.mark.parametrize("name", [*GENERATED, VECTORS])
def test_a_changed_file_is_named_and_put_right(copy: Path, name: str) -> None:
    path = copy / name
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert verify(copy) == [f"{name}: would change if it were generated again"]
    assert generate(copy) == [name]
    assert verify(copy) == []


@pytest.mark.parametrize("name", [*GENERATED, VECTORS])
def test_a_missing_file_is_named_and_written(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert verify(copy) == [f"{name}: is missing"]
    assert generate(copy) == [name]


@pytest.mark.parametrize("mark", [MARK, *MARKS.values()])
def test_a_file_that_is_no_longer_generated_is_named(copy: Path, mark: str) -> None:
    stranger = copy / "client" / "old_packets.py"
    stranger.write_text(f"# {mark}\n")
    (copy / "protocol" / "mentions.py").write_text("x = 1\n" * 100 + f"# {mark}\n")
    hidden = copy / ".venv" / "packets.py"
    hidden.parent.mkdir()
    hidden.write_text(f"# {mark}\n")
    assert verify(copy) == ["client/old_packets.py: says that it is generated, but is not"]


def test_a_change_of_the_specification_shows(copy: Path) -> None:
    spec = copy / "protocol/spec/telesto.toml"
    spec.write_text(
        spec.read_text(encoding="utf-8").replace("Asks for a sign of life.", "Asks."), encoding="utf-8"
    )
    assert [problem.partition(":")[0] for problem in verify(copy)] == [
        "protocol/packets.py",
        "docs/reference/protocol.md",
    ]


@pytest.mark.parametrize("name", PARTS)
def test_a_changed_part_is_named_and_put_right(copy: Path, name: str) -> None:
    path = copy / name
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    end = next(at for at, line in enumerate(lines) if "queue settings: end" in line)
    lines.insert(end, "something else\n")
    path.write_text("".join(lines), encoding="utf-8")
    assert f"{name}: would change if it were generated again" in verify(copy)
    assert name in generate(copy)
    assert (copy / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")
    assert verify(copy) == []


def test_a_file_without_a_place_for_its_part_is_named(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copy / PARTS[0]
    path.write_text(path.read_text(encoding="utf-8").replace("queue settings: end", ""), encoding="utf-8")
    assert main(["--root", str(copy)]) == 2
    assert f"{PARTS[0]}: it must have one place" in capsys.readouterr().err


def test_a_change_of_a_queue_setting_shows_wherever_it_stands(copy: Path) -> None:
    spec = copy / "protocol/spec/telesto.toml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace('"fail_limit"', '"fail_count"'), encoding="utf-8")
    assert {problem.partition(":")[0] for problem in verify(copy)} == {*PARTS, *GENERATED, VECTORS} - {
        "protocol/enums.py",
        "protocol/error_codes.py",
        "middleware/security/needed_rights.py",
        CALLS,
        *TWINS.values(),
    }


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("client/aio/requests.py", "delete_client", "drop_client"),
        ("client/aio/consumer.py", "touch", "extend"),
    ],
)
def test_a_change_of_the_asyncio_client_shows(copy: Path, source: str, old: str, new: str) -> None:
    path, target = copy / source, TWINS[source]
    text = path.read_text(encoding="utf-8")
    assert f"    async def {old}(self" in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert verify(copy) == [f"{target}: would change if it were generated again"]
    generate(copy)
    written = (copy / target).read_text(encoding="utf-8")
    assert f"    def {new}(self" in written
    assert not re.search(r"async |await |Async|asyncio\.", written)


def test_the_command_generates_and_verifies(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verify", "--root", str(copy)]) == 0
    (copy / "docs/reference/protocol.md").unlink()
    assert main(["--verify", "--root", str(copy)]) == 1
    assert "docs/reference/protocol.md: is missing; run python -m tools.codegen" in capsys.readouterr().err
    assert main(["--root", str(copy)]) == 0
    assert capsys.readouterr().out == "wrote docs/reference/protocol.md\n"
    assert main(["--verify", "--root", str(copy)]) == 0


def test_the_command_says_what_is_wrong_with_the_specification(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = copy / "protocol/spec/telesto.toml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("id = 0x01", "id = 0x02"), encoding="utf-8")
    assert main(["--root", str(copy)]) == 2
    assert capsys.readouterr().err == "tools.codegen: packets: id 0x02 is used twice\n"


def test_a_change_of_a_signature_shows(copy: Path) -> None:
    queue_id = next((copy / PROCEDURES).rglob("get_queue_id.sql"))
    text = queue_id.read_text(encoding="utf-8")
    queue_id.write_text(text.replace("    name text,", "    wanted text,"), encoding="utf-8")
    assert verify(copy) == [f"{CALLS}: would change if it were generated again"]
    assert "def get_queue_id(*, wanted: str | None) -> Statement:" in render_calls(read_procedures(copy))


def test_a_parameter_of_an_unknown_type_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queue_id = next((copy / PROCEDURES).rglob("get_queue_id.sql"))
    text = queue_id.read_text(encoding="utf-8")
    queue_id.write_text(text.replace("    name text,", "    name varchar,"), encoding="utf-8")
    assert main(["--verify", "--root", str(copy)]) == 2
    assert "get_queue_id: name has the type varchar" in capsys.readouterr().err
