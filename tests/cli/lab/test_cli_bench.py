"""`telesto bench`: what it lists, what it refuses, what it shows. What it measures is tested elsewhere."""

from pathlib import Path

from command_line import CommandLine


def test_lists_the_ready_experiments(bare_telesto: CommandLine) -> None:
    listed = {each["name"]: each for each in bare_telesto.objects("bench", "list")}
    assert "quick" in listed
    assert bare_telesto.output("bench", "list").count(b"\n") == len(listed)


def test_a_bad_experiment_is_told_in_a_line(bare_telesto: CommandLine, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert "no built-in experiment of that name" in bare_telesto.error(2, "bench", "run", "nowhere", *out)
    said = bare_telesto.error(2, "bench", "run", "quick", *out, "--set", "customers=3")
    assert "no such setting" in said
    assert not (tmp_path / "out").exists()


def test_a_directory_of_something_else_is_told(bare_telesto: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    said = bare_telesto.error(2, "bench", "run", "quick", "--out", str(tmp_path))
    assert "is not the directory of an experiment" in said
    assert (tmp_path / "notes.txt").exists()
    for command in ("show", "database"):
        assert "experiment.json" in bare_telesto.error(2, "bench", command, str(tmp_path))
