"""Experiment files: what they mean, and that a bad one is told precisely."""

from pathlib import Path

import pytest

from telesto.benchmarks.harness.experiment import (
    BadExperimentError,
    Experiment,
    combinations,
    load_experiment,
    ready_experiments,
    runs_of,
)
from telesto.benchmarks.harness.preparation import assign, groups_of, parts_of, sending, share_out
from telesto.benchmarks.load.settings import RunSettings, middleware_settings

GOOD = """
name = "good"
title = "Two factors"
repetitions = 3
[settings]
duration_s = 2
workload = "put"
[factors]
clients = [1, 2, 4]
message_bytes = [100, 200]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "experiment.toml"


def load(file: Path, text: str, *assignments: str, repetitions: int | None = None) -> Experiment:
    file.write_text(text)
    return load_experiment(str(file), assignments, repetitions)


def told(file: Path, text: str, *assignments: str) -> str:
    with pytest.raises(BadExperimentError) as raised:
        load(file, text, *assignments)
    return str(raised.value)


def test_runs_are_all_combinations_each_repeated_in_an_order_by_chance(file: Path) -> None:
    experiment = load(file, GOOD)
    runs = runs_of(experiment, seed=5)
    assert len(combinations(experiment)) == 6
    assert [run.number for run in runs] == list(range(1, 19))
    for repetition in range(3):
        block = runs[6 * repetition : 6 * repetition + 6]
        assert {run.repetition for run in block} == {repetition + 1}
        assert sorted(run.combination for run in block) == [1, 2, 3, 4, 5, 6]
    assert all(run.settings.clients == run.levels["clients"] for run in runs)
    assert all(run.settings.duration_s == 2 for run in runs)


def test_the_order_is_that_of_the_seed(file: Path) -> None:
    experiment = load(file, GOOD)
    orders = {seed: [run.combination for run in runs_of(experiment, seed)] for seed in range(10)}
    assert orders[3] == [run.combination for run in runs_of(experiment, 3)]
    assert len({tuple(order) for order in orders.values()}) > 1
    blocks = [orders[0][start : start + 6] for start in (0, 6, 12)]
    assert any(block != blocks[0] for block in blocks) or blocks[0] != [1, 2, 3, 4, 5, 6]


def test_the_command_line_changes_settings_and_factors(file: Path) -> None:
    changed = load(file, GOOD, "duration=30", "clients=8", "think_ms=[0, 5]", "loop=closed", repetitions=2)
    assert changed.settings == {"duration_s": 30, "workload": "put", "clients": 8, "loop": "closed"}
    assert changed.factors == {"message_bytes": [100, 200], "think_ms": [0, 5]}
    assert changed.repetitions == 2


CASES = """
against = [{ case = "few" }, { message_bytes = 100 }]
[cases.few]
clients = 2
[cases."8 x 64"]
clients = 8
in_flight = 64
message_bytes = 300
"""
GOOD_CASES = CASES.replace("message_bytes = 300", "")


def with_cases(text: str = CASES) -> str:
    return GOOD.replace("clients = [1, 2, 4]", "").replace("repetitions = 3\n", f"repetitions = 3\n{text}")


def test_each_run_has_the_settings_of_its_case(file: Path) -> None:
    text = with_cases(CASES.replace("message_bytes = 300", "duration_s = 9"))
    experiment = load(file, text)
    assert experiment.varied == {"case": ["few", "8 x 64"], "message_bytes": [100, 200]}
    runs = runs_of(experiment, seed=5)
    assert len(runs) == 3 * 2 * 2
    for run in runs:
        few = run.levels["case"] == "few"
        assert (run.settings.clients, run.settings.in_flight) == ((2, 1) if few else (8, 64))
        assert run.settings.duration_s == (2 if few else 9)
        assert run.settings.message_bytes == run.levels["message_bytes"]


def test_the_command_line_changes_a_setting_of_all_cases_and_chooses_some(file: Path) -> None:
    text = with_cases(GOOD_CASES)
    assert {run.settings.clients for run in runs_of(load(file, text, "clients=5"), seed=1)} == {5}
    assert load(file, text, "case=8 x 64").varied["case"] == ["8 x 64"]
    assert load(file, text, 'case=["few"]').varied["case"] == ["few"]
    assert load(file, text, "message_bytes=50").against == [{"case": "few"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", ["is not valid TOML"]),
        ("title = 'x'", ["name", "required"]),
        (GOOD.replace('"good"', '"Not Good"'), ["name", "Not Good"]),
        (GOOD.replace("repetitions = 3", "repetitions = 0"), ["repetitions", "greater than or equal to 1"]),
        (GOOD.replace("repetitions", "repetition"), ["repetition", "not permitted"]),
        (GOOD.replace("duration_s", "durations"), ["durations", "not permitted"]),
        (GOOD.replace("duration_s = 2", "duration_s = 'long'"), ["duration_s", "long"]),
        (GOOD.replace('"put"', '"push"'), ["workload", "push"]),
        (GOOD.replace("[1, 2, 4]", "[]"), ["clients has no levels"]),
        (GOOD.replace("[1, 2, 4]", "[1, 1]"), ["clients has duplicate levels"]),
        (GOOD.replace("[1, 2, 4]", "[1, 0]"), ["clients = 0", "greater than or equal to 1"]),
        (GOOD.replace("duration_s = 2", "clients = 2"), ["clients cannot be both a setting and a factor"]),
        (GOOD.replace("duration_s = 2", 'loop = "open"'), ["requires a rate"]),
        (GOOD.replace("duration_s = 2", "rate = 5"), ["rate requires loop = open"]),
        (GOOD.replace("duration_s = 2", "workers = 1\npool_size = 3"), ["set the same number"]),
        (GOOD.replace("duration_s = 2", "keys = 3"), ["keys requires the workload consume"]),
        (GOOD.replace("duration_s = 2", "queues = 2"), ["2 queues are too many for 1 clients"]),
        (GOOD.replace('"put"', '"mix"'), ["mix needs at least 9 clients"]),
        (GOOD.replace('"put"', '"drain"'), ["drain needs a backlog"]),
        (GOOD.replace('"put"', '"fan-out"'), ["subscribers (8) must not exceed clients (1)"]),
        (GOOD.replace('"put"', '"fan-out"\nsubscribers = 1'), ["fan-out needs a backlog"]),
        (GOOD.replace('"put"', '"consume"\nconsumers = 1'), ["consume needs a backlog"]),
        (GOOD.replace('"put"', '"idle"\nloop = "open"\nrate = 5'), ["idle sends nothing"]),
        (
            GOOD.replace('"put"', '"read"\nbacklog = 1\nbare_batch = 5'),
            ["bare_batch requires a workload of put, "],
        ),
        (GOOD.replace('"put"', '"put"\nbare_batch = 5\nstate = true'), ["bare_batch allows neither"]),
        (GOOD.replace('"put"', '"put"\nclient = "blocking"'), ["client = blocking requires a process"]),
        (
            GOOD.replace('"put"', '"consume"\nclient = "blocking"\nconsumers = 1\nbacklog = 1'),
            ["client = blocking requires loop = closed"],
        ),
        (GOOD.replace('"put"', '"put"\nstate = true\ndelivery = "fast"'), ["state requires delivery = once"]),
        (GOOD.replace('"put"', '"put"\naway = 1'), ["away requires the workload"]),
        (GOOD.replace("[100, 200]", "[1, 200]"), ["message_bytes = 1", "greater than or equal to 17"]),
        (GOOD.replace("= 3", "= 1000").replace("[1, 2, 4]", str([*range(1, 30)])), ["58,000 runs"]),
        (with_cases(), ["message_bytes cannot be both a setting and a factor"]),
        (with_cases(GOOD_CASES.replace('case = "few"', 'case = "none"')), ["against", "no case 'none'"]),
        (with_cases(GOOD_CASES.replace('case = "few"', "duration_s = 2")), ["duration_s is not varied"]),
        (with_cases(GOOD_CASES) + 'case = ["other"]', ["no case 'other'"]),
    ],
)
def test_a_bad_file_is_told_precisely(file: Path, text: str, words: list[str]) -> None:
    message = told(file, text)
    assert message.startswith(str(file))
    for word in words:
        assert word in message


def test_a_bad_assignment_is_told_precisely(file: Path) -> None:
    assert "write name=value" in told(file, GOOD, "clients")
    assert "there is no such setting" in told(file, GOOD, "customers=3")
    assert "clients" in told(file, GOOD, "clients=many")


def test_a_file_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(BadExperimentError, match=r"no file nowhere.*quick"):
        load_experiment("nowhere")


@pytest.mark.parametrize("name", sorted(ready_experiments()))
def test_ready_experiments_can_be_read(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.name == name
    assert experiment.title
    assert experiment.description


def test_the_service_is_given_its_part() -> None:
    settings = RunSettings(pool_size=8, max_batch=64, phase_every=10)
    assert middleware_settings(settings) == {
        "TELESTO_PHASE_EVERY": "10",
        "TELESTO_MAX_BATCH": "64",
        "TELESTO_PUT_WORKERS": "3",
        "TELESTO_TAKE_WORKERS": "3",
        "TELESTO_SELECTED_WORKERS": "2",
    }
    assert middleware_settings(RunSettings(workers=2))["TELESTO_ACK_WORKERS"] == "2"


def test_every_name_that_the_service_is_given_is_a_setting_of_it() -> None:
    from telesto.middleware.common.settings import ServerSettings

    given = middleware_settings(RunSettings(pool_size=3)) | middleware_settings(
        RunSettings(workers=1, max_batch=1)
    )
    names = {name.removeprefix("TELESTO_").lower() for name in given}
    assert names <= set(ServerSettings.model_fields)


@pytest.mark.parametrize("loop", ["closed", "open"])
@pytest.mark.parametrize("clients", [9, 36, 96, 97])
def test_the_mix_has_its_parts_and_everybody_finds_a_partner(clients: int, loop: str) -> None:
    rate = 100 if loop == "open" else None
    chosen = parts_of(RunSettings(workload="mix", clients=clients, loop=loop, rate=rate))
    assert len(chosen) == clients
    groups = {name: sum(part.group == name for part in chosen) for name in groups_of(chosen)}
    assert groups["pairs"] == groups["pool"] == 2 * (clients // 9)
    names = [str(number) for number in range(clients)]
    ids = [1000 + number for number in range(clients)]
    participants = assign(chosen, names, ids, {name: [number] for number, name in enumerate(groups)})
    for each in participants:
        for peer in each.peers:
            partner = participants[peer - 1000]
            assert partner.destination == each.destination
            assert peer != ids[each.number]
            assert (each.role, partner.role) in {
                ("requester", "responder"),
                ("one-way", "one-way"),
                ("sender", "receiver"),
            }


@pytest.mark.parametrize(("workload", "served"), [("consume", "consumer"), ("fan-out", "subscriber")])
def test_processes_share_those_who_send_and_those_who_serve(workload: str, served: str) -> None:
    settings = RunSettings(workload=workload, clients=16, consumers=4, subscribers=4)
    chosen = parts_of(settings)
    assert sum(part.role == served for part in chosen) == 4
    queues = {workload: ["part"]}
    participants = assign(chosen, [""] * 16, list(range(16)), queues)
    shares = share_out(participants, 2)
    assert sorted(each.number for share in shares for each in share) == list(range(16))
    assert all(sending(share) for share in shares)
    assert len(share_out(participants[:4], 8)) == 2


@pytest.mark.parametrize(("workload", "together"), [("drain", 1), ("put", 1), ("pool", 2), ("one-way", 2)])
def test_every_queue_has_somebody_of_each_role(workload: str, together: int) -> None:
    chosen = parts_of(RunSettings(workload=workload, clients=4, queues=2, backlog=1))
    participants = assign(chosen, [""] * 4, [10, 11, 12, 13], {workload: [1, 2]})
    assert [each.destination for each in participants] == ([1, 2, 1, 2] if together == 1 else [1, 1, 2, 2])


def test_clients_of_one_role_are_spread_over_processes_one_by_one() -> None:
    chosen = parts_of(RunSettings(workload="put", clients=3))
    shares = share_out(assign(chosen, [""] * 3, [0, 1, 2], {"put": [1]}), 4)
    assert [[each.number for each in share] for share in shares] == [[0], [1], [2]]


def test_subscriptions_without_their_clients_have_no_process() -> None:
    chosen = parts_of(RunSettings(workload="fan-out", clients=2, subscribers=1, away=3))
    assert sorted(part.role for part in chosen) == ["away", "away", "away", "publisher", "subscriber"]
    participants = assign(chosen, [""] * 5, list(range(5)), {"fan-out": ["topic"]})
    assert {each.role for share in share_out(participants, 2) for each in share} == {
        "publisher",
        "subscriber",
    }
