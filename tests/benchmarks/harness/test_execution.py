"""Experiments from beginning to end at tiny size, and going on with those that were broken off."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram

from telesto.benchmarks.harness import execution
from telesto.benchmarks.harness.execution import carry_out
from telesto.benchmarks.harness.experiment import Experiment, Run, check_experiment
from telesto.benchmarks.harness.manifest import (
    MANIFEST,
    PARTIAL,
    RUN_FILE,
    ExperimentDirectory,
    ManifestError,
    create_or_resume,
    open_directory,
)
from telesto.benchmarks.harness.one_run import OnSecond
from telesto.benchmarks.harness.summary import is_clean, summarise
from telesto.benchmarks.results.audit import NOTHING
from telesto.benchmarks.results.tables import SCHEMAS
from telesto.benchmarks.tiers.service import with_database

TINY = {"duration_s": 0.9, "warm_up_s": 0.1, "cool_down_s": 0.1, "sample_every": 1}


#: The names of the databases begin with it; several workers may share the server.
NAME = f"tiny-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"


@dataclass
class Heard:
    """What a listener was told."""

    begun: list[tuple[int, int]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def begins(self, runs: int, done: int) -> None:
        self.begun.append((runs, done))

    def run_begins(self, run: Run) -> OnSecond:
        self.runs.append(run.name)
        return lambda second: None

    def run_ends(self, run: Run, _result: dict[str, Any]) -> None:
        self.ended.append(run.name)


def experiment(seed: int | None = 1, **values: Any) -> Experiment:
    settings = TINY | values.pop("settings", {})
    defaults = {"name": NAME, "title": "Tiny", "seed": seed, "keep_databases": False}
    return check_experiment(defaults | values | {"settings": settings}, "test")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def server_url(postgres_url: str) -> str:
    return postgres_url


async def databases(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        return {row[0] for row in await connection.fetch("SELECT datname FROM pg_database")}
    finally:
        await connection.close()


def checked(directory: ExperimentDirectory, run: Run) -> dict[str, Any]:
    """The result of a run in which nothing may have gone wrong."""
    result = directory.result_of(run)
    assert result["balance"]["clean"], result
    assert result["balance"]["put"] > 0, result
    assert result["errors"] == {}, result
    return result


async def test_every_kind_of_client_runs_and_balances_and_leaves_its_tables(
    out: Path, server_url: str
) -> None:
    settings = {
        "clients": 9,
        "subscribers": 2,
        "consumers": 2,
        "priority_spread": 3,
        "wait_samples_per_s": 20,
    }
    wanted = experiment(
        settings=settings | {"processes": 1, "read_batch": 5, "phase_every": 1},
        factors={"workload": ["mix", "put-read", "consume", "fan-out"]},
        keep_databases=True,
    )
    heard = Heard()
    directory = await carry_out(wanted, out, heard, server_url)
    names = set()
    try:
        assert heard.ended == ["0001", "0002", "0003", "0004"]
        assert is_clean(directory)
        assert "Audit of 4 runs" in summarise(directory)
        for run in directory.runs:
            result = checked(directory, run)
            names.add(result["database"])
            tables = {
                name: pq.read_table(directory.run_directory(run) / f"{name}.parquet").to_pylist()
                for name in SCHEMAS
            }
            check_tables(tables, result)
            if run.settings.workload in ("mix", "put-read"):
                assert await history_rows(server_url, result["database"]) == result["balance"]["handed_over"]
        manifest = json.loads((out / MANIFEST).read_text())
        assert manifest["machine"]["Python"]
        assert manifest["versions"]["telesto-mq"]
        assert [run["levels"] for run in manifest["runs"]] == [run.levels for run in directory.runs]
        assert names <= await databases(server_url)
    finally:
        for name in names:
            await drop(server_url, name)


def check_tables(tables: dict[str, list[dict[str, Any]]], result: dict[str, Any]) -> None:
    put = {"put", "request", "reply", "publish"}
    completed = sum(row["completed"] for row in tables["throughput"] if row["operation"] in put)
    fan_out = result["settings"]["subscribers"] if result["settings"]["workload"] == "fan-out" else 1
    assert completed * fan_out == result["balance"]["put"]
    assert len(tables["samples"]) == sum(row["completed"] for row in tables["throughput"])
    for row in tables["histograms"]:
        assert HdrHistogram.decode(row["encoded"]).get_total_count() == row["count"]
    assert {row["tier"] for row in tables["tiers"]} == {"client", "middleware", "postgres", "harness"}
    counters = {(row["source"], row["counter"]) for row in tables["counters"]}
    assert {("wal", "wal_bytes"), ("database", "xact_commit"), ("tables", "n_dead_tup")} <= counters
    assert ("checkpointer", "num_timed") in counters or ("bgwriter", "checkpoints_timed") in counters
    assert any(row["metric"] == "telesto_requests_total" for row in tables["metrics"])
    assert tables["waits"]
    assert all(row["database_us"] > 0 and row["batch"] > 0 for row in tables["phases"])
    assert tables["phases"]
    assert result["tables"]["before"]
    assert result["tables"]["after"]


async def test_an_open_loop_over_two_middlewares(out: Path, server_url: str) -> None:
    settings = {"workload": "one-way", "loop": "open", "rate": 100, "clients": 4, "middlewares": 2}
    directory = await carry_out(experiment(settings=settings), out, Heard(), server_url)
    checked(directory, directory.runs[0])


async def test_a_drain_ends_when_everything_was_read(out: Path, server_url: str) -> None:
    settings = {"workload": "drain", "clients": 2, "backlog": 300, "read_batch": 7, "old_snapshot": True}
    # It would go on for an hour.
    settings |= {"duration_s": 3600, "queues": 2, "pool_size": 3}
    directory = await carry_out(experiment(settings=settings), out, Heard(), server_url)
    result = checked(directory, directory.runs[0])
    assert (result["balance"]["handed_over"], result["balance"]["left"]) == (300, 0)
    assert result["figures"]["messages_per_s"] > 0


CASES: dict[str, dict[str, Any]] = {
    "bare calls": {"workload": "put-read", "clients": 3, "bare_batch": 16, "queues": 2},
    "single bare calls": {"workload": "put-read", "clients": 1, "bare_batch": 1},
    "bare puts": {"workload": "put", "bare_batch": 16},
    "blocking": {"workload": "put-read", "clients": 2, "client": "blocking", "state": True},
    "with a state": {"workload": "put-read", "clients": 2, "in_flight": 4, "state": True},
    "all are consumed": {"workload": "consume", "clients": 2, "consumers": 2, "backlog": 20_000, "keys": 7},
    "backlog below": {"workload": "put-read", "clients": 2, "backlog": 300, "backlog_priority": 1},
    "topic": {"workload": "fan-out", "clients": 3, "subscribers": 2, "away": 2, "backlog": 30, "queues": 2},
    "all subscribe": {"workload": "fan-out", "clients": 2, "subscribers": 2, "backlog": 30, "fetch_batch": 1},
    "idle": {"workload": "idle", "clients": 20},
}


async def test_every_way_to_load_the_service_runs_and_balances(out: Path, server_url: str) -> None:
    directory = await carry_out(experiment(cases=CASES), out, Heard(), server_url)
    results = {}
    for run in directory.runs:
        results[run.levels["case"]] = result = directory.result_of(run)
        assert result["balance"]["clean"], result
        assert result["errors"] == {}, result
        assert sorted(path.name for path in directory.run_directory(run).iterdir() if path.is_dir()) == []
        moved = result["balance"]["handed_over"] or result["balance"]["put"]
        assert (moved > 0) == (run.levels["case"] != "idle")
        assert result["tiers"]["middleware"]["memory_bytes"] > 1 << 20
    balances = {case: result["balance"] for case, result in results.items()}
    for case in ("bare calls", "single bare calls"):
        assert balances[case]["put"] == balances[case]["handed_over"]
    assert balances["bare puts"]["left"] == balances["bare puts"]["put"]
    assert balances["backlog below"]["left"] == 300
    assert balances["all are consumed"]["put"] == 20_000
    # Each topic has a subscriber that is there and one that is away, which has everything left.
    assert balances["topic"]["put"] > 2 * 30
    assert balances["topic"]["left"] >= balances["topic"]["put"] / 2
    assert (balances["all subscribe"]["put"], balances["all subscribe"]["left"]) == (60, 0)
    assert "against" not in summarise(directory)


@pytest.mark.parametrize(("history", "rows"), [("none", False), ("metadata", True)])
async def test_queues_of_a_run_keep_the_history_that_it_is_about(
    out: Path, server_url: str, history: str, rows: bool
) -> None:
    settings = {"workload": "put-read", "clients": 2, "history": history}
    directory = await carry_out(experiment(settings=settings, keep_databases=True), out, Heard(), server_url)
    result = checked(directory, directory.runs[0])
    try:
        kept = await history_rows(server_url, result["database"])
        assert kept == (result["balance"]["handed_over"] if rows else 0)
    finally:
        await drop(server_url, result["database"])


async def history_rows(server_url: str, name: str) -> int:
    """Counts what was handed over; requests whose time was over as the run ended were not."""
    connection = await asyncpg.connect(with_database(server_url, name))
    try:
        rows: int = await connection.fetchval(
            "SELECT count(*) FROM telesto.history WHERE ending <> 'expired'"
        )
        return rows
    finally:
        await connection.close()


async def drop(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


class BrokenOffError(Exception):
    """As if the machine had gone."""


async def test_what_is_whole_stays_and_what_is_half_is_done_again(
    out: Path, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = experiment(settings={"workload": "put"}, factors={"clients": [1, 2]}, repetitions=2)
    done: list[str] = []

    async def perform_three(run: Run, url: str, directory: Path, _on_second: OnSecond) -> dict[str, Any]:
        (directory / "left-behind").touch()
        assert url.rpartition("/")[2] in await databases(server_url)
        done.append(run.name)
        if len(done) == 3:
            raise BrokenOffError
        return {"balance": NOTHING.as_plain()}

    monkeypatch.setattr(execution, "measure_run", perform_three)
    with pytest.raises(BrokenOffError):
        await carry_out(wanted, out, Heard(), server_url)
    assert (out / "runs" / f"0003{PARTIAL}" / "left-behind").exists()

    half = open_directory(out)
    before = (half.run_directory(half.runs[0]) / RUN_FILE).stat()
    heard = Heard()
    directory = await carry_out(wanted, out, heard, server_url)
    assert heard.begun == [(4, 2)]
    assert done == ["0001", "0002", "0003", "0003", "0004"]
    assert heard.ended == ["0003", "0004"]
    assert (half.run_directory(half.runs[0]) / RUN_FILE).stat() == before
    assert sorted(path.name for path in (out / "runs").iterdir()) == ["0001", "0002", "0003", "0004"]

    again = Heard()
    await carry_out(wanted, out, again, server_url)
    assert (again.begun, again.ended) == ([(4, 4)], [])
    assert not any(name.startswith(f"bench_{NAME.replace('-', '_')}") for name in await databases(server_url))
    assert is_clean(directory)


def begun(out: Path, seed: int | None = None) -> ExperimentDirectory:
    return create_or_resume(out, experiment(seed=seed, settings={"workload": "put"}), lambda path: {})


def test_an_experiment_without_a_seed_keeps_the_one_that_was_chosen(out: Path) -> None:
    first = begun(out)
    assert begun(out).seed == first.seed
    assert begun(out, first.seed).seed == first.seed
    with pytest.raises(ManifestError, match="with other settings"):
        begun(out, first.seed + 1)


def test_a_directory_of_something_else_is_refused(out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").touch()
    with pytest.raises(ManifestError, match="exists and is not the directory of an experiment"):
        begun(out)
    with pytest.raises(ManifestError, match="is not the directory of an experiment"):
        open_directory(out)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting"),
        ('{"format": 99}', "format 99"),
        ('{"format": 1}', "damaged"),
        ("[]", "not the manifest"),
    ],
)
def test_a_damaged_manifest_is_told(out: Path, text: str, words: str) -> None:
    out.mkdir()
    (out / MANIFEST).write_text(text)
    with pytest.raises(ManifestError, match=words):
        open_directory(out)
