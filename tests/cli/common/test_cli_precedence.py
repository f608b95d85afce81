"""An explicit option wins over the environment."""

import pytest
import typer

from command_line import CommandLine
from telesto.cli.common.app import build

AWAY = "postgresql://127.0.0.1:1/telesto"
BOTH = ("database_url", "data_dir")


def _commands(command: object, *words: str) -> dict[tuple[str, ...], object]:
    below = getattr(command, "commands", None)
    if below is None:
        return {words: command}
    return {path: each for name, sub in below.items() for path, each in _commands(sub, *words, name).items()}


WITH_BOTH = {
    words: command
    for words, command in _commands(typer.main.get_command(build([]))).items()
    if {*BOTH} <= {parameter.name for parameter in command.params}  # type: ignore[attr-defined]
}


def test_every_command_with_a_database_has_the_same_two_options() -> None:
    assert len(WITH_BOTH) >= 20
    for words, command in WITH_BOTH.items():
        by_name = {parameter.name: parameter for parameter in command.params}  # type: ignore[attr-defined]
        assert [by_name[name].envvar for name in BOTH] == ["TELESTO_DATABASE_URL", "TELESTO_DATA_DIR"], words


@pytest.mark.parametrize("words", [("user", "list"), ("db", "check"), ("audit",)], ids=" ".join)
def test_a_data_directory_wins_over_a_database_of_the_environment(
    bare_telesto: CommandLine, words: tuple[str, ...]
) -> None:
    bare_telesto.environment["TELESTO_DATABASE_URL"] = AWAY
    assert "there is no data directory 'nowhere'" in bare_telesto.error(2, *words, "--data-dir", "nowhere")
    bare_telesto.environment["TELESTO_DATA_DIR"] = "nowhere"
    assert "cannot reach the database" in bare_telesto.error(3, *words)
    said = bare_telesto.error(2, *words, "--data-dir", "nowhere", "--database-url", AWAY)
    assert "give one of them" in said
    del bare_telesto.environment["TELESTO_DATABASE_URL"]
    assert "there is no data directory 'nowhere'" in bare_telesto.error(2, *words)


def test_serve_takes_the_data_directory_that_it_is_given(bare_telesto: CommandLine) -> None:
    for variable in ("TELESTO_DATABASE_URL", "telesto_database_url"):
        bare_telesto.environment[variable] = AWAY
    assert AWAY.encode() in bare_telesto.output("serve", "--show-config")
    shown = bare_telesto.output("serve", "--show-config", "--data-dir", "here")
    assert b"\n# database_url =\n" in shown
    (bare_telesto.home / "telesto.toml").write_text(f'database_url = "{AWAY}"\n')
    config = ("serve", "--show-config", "--config", "telesto.toml")
    said = bare_telesto.error(2, *config, "--data-dir", "here")
    assert "--data-dir names a database, and so does the database_url in 'telesto.toml'" in said
