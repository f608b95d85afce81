"""What peers lack is got by apt-get and pip, each once; a failure is told and ends nothing."""

import sys

from telesto.benchmarks.comparison.catalog import CATALOG, DISTRIBUTIONS, Entry, install


def never(_: object) -> None:  # pragma: no cover
    raise AssertionError


def entry(modules: tuple[str, ...] = (), files: tuple[str, ...] = (), debian: tuple[str, ...] = ()) -> Entry:
    return Entry(never, modules, files, debian)  # type: ignore[arg-type]


def test_only_what_is_missing_is_installed() -> None:
    catalog = {
        "one": entry(("no_such_module", "json"), ("/no/such/file",), ("deb-one",)),
        "two": entry(("no_such_module",), ("/no/such/file", "sh"), ("deb-one", "deb-two")),
        "binary": Entry(never, (), ("/no/such/file",), ("deb-old",), ("a-binary",)),  # type: ignore[arg-type]
        "there": entry(("json",), ("sh",), ("deb-three",)),
        "not-asked": entry(("no_other_module",), ("/no/such/file",), ("deb-four",)),
    }
    commands: list[list[str]] = []
    said: list[str] = []

    def execute(command: list[str]) -> int:
        commands.append(command)
        return 100 if command[0] == "apt-get" else 0

    install(["one", "two", "binary", "there"], said.append, execute, catalog)
    assert [command[:2] for command in commands] == [
        ["apt-get", "update"],
        ["apt-get", "install"],
        [sys.executable, "-m"],
    ]
    assert commands[1][-2:] == ["deb-one", "deb-two"]
    assert commands[2][-2:] == ["a-binary", "no_such_module"]
    assert said.count("apt-get failed with status 100") == 2


def test_nothing_is_run_when_nothing_is_missing() -> None:
    install(["there"], never, never, {"there": entry(("json",), ("sh",), ("deb",))})  # type: ignore[arg-type]


def test_every_module_of_the_catalog_has_a_distribution() -> None:
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extra = " ".join(project["optional-dependencies"]["bench"])
    for each in CATALOG.values():
        for module in each.modules:
            assert DISTRIBUTIONS.get(module, module) in extra
        assert bool(each.files) == bool(each.debian)
