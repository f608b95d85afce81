"""Periodic tasks are put at their times, each time once."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from task_workers import until, working
from telesto.client import NewMessage, TelestoClient
from telesto.tasks import App, current_message
from telesto.tasks.periodic import Schedule

BERLIN = ZoneInfo("Europe/Berlin")


def ticks(expression: str, after: datetime, count: int) -> list[str]:
    schedule, told = Schedule(expression, BERLIN), []
    for _ in range(count):
        after = schedule.next(after)
        assert after.tzinfo is UTC
        told.append(after.astimezone(BERLIN).strftime("%d %H:%M%z"))
    return told


def test_a_daily_task_runs_once_a_day_whatever_the_clocks_do() -> None:
    assert ticks("30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=BERLIN), 2) == [
        "29 03:00+0200",
        "30 02:30+0200",
    ]
    assert ticks("30 2 * * *", datetime(2026, 10, 24, 12, tzinfo=BERLIN), 2) == [
        "25 02:30+0200",
        "26 02:30+0100",
    ]


def test_a_task_of_every_half_hour_runs_through_a_change_of_clocks() -> None:
    autumn = ticks("*/30 * * * *", datetime(2026, 10, 25, 1, 45, tzinfo=BERLIN), 5)
    assert autumn == ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100", "25 03:00+0100"]
    spring = ticks("*/30 * * * *", datetime(2026, 3, 29, 1, 15, tzinfo=BERLIN), 3)
    assert spring == ["29 01:30+0100", "29 03:00+0200", "29 03:30+0200"]


def test_of_missed_ticks_the_latest_is_told() -> None:
    schedule = Schedule("* * * * *", UTC)
    now = datetime(2026, 1, 1, 12, 5, 30, tzinfo=UTC)
    assert schedule.latest(now - timedelta(minutes=3), now) == now.replace(second=0)
    assert schedule.latest(now.replace(second=0), now) is None


@pytest.mark.parametrize("expression", ["", "* * * *", "61 * * * *", "0 0 30 2 *", "soon"])
def test_what_is_no_expression_is_refused(app: App, expression: str) -> None:
    with pytest.raises(ValueError, match="no cron expression"):
        app.periodic(expression)


def test_what_cannot_be_periodic_is_refused(app: App, queue: str) -> None:
    with pytest.raises(TypeError, match="no arguments, but task 'greet': missing a required argument"):

        @app.periodic("* * * * *")  # type: ignore[arg-type]
        @app.task(queue=queue)
        def greet(name: str) -> None: ...

    with pytest.raises(TypeError, match=r"put @app.periodic\(...\) above @app.task"):

        @app.task(queue=queue)
        @app.periodic("* * * * *")  # type: ignore[arg-type]
        def clean() -> None: ...

    assert app.periodic_tasks == []


async def test_a_tick_that_cannot_be_made_is_told(
    app: App, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    @app.periodic("* * * * * *")
    @app.task(queue=queue)
    def clean() -> None: ...

    def broken() -> NewMessage:
        raise ValueError("no message")

    clean.message = broken  # type: ignore[method-assign]
    async with working(app):
        await until(lambda: "of task clean is not put yet: ValueError('no message')" in caplog.text)


async def test_two_workers_put_each_tick_once(app: App, queue: str, client: TelestoClient) -> None:
    ran: list[str] = []

    @app.periodic("* * * * * *")
    @app.task(queue=queue)
    async def tick() -> None:
        ran.append(current_message().headers["tick"])

    async with working(app), working(app):
        await until(lambda: len(ran) >= 4)
    assert len(set(ran)) == len(ran)
    statistics = client.queue(queue).statistics()
    assert statistics.put_total == len(ran) + statistics.depth


async def test_a_tick_that_was_just_missed_is_made_up_for_once(
    app: App, queue: str, client: TelestoClient
) -> None:
    ran: list[str] = []

    # It is due once a year, and was some seconds ago.
    due = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=2)

    @app.periodic(f"{due.second} {due.minute} {due.hour} {due.day} {due.month} *")
    @app.task(queue=queue)
    async def yearly() -> None:
        ran.append(current_message().headers["tick"])

    for _ in range(2):
        async with working(app):
            await until(lambda: ran)
    assert ran == [due.isoformat()]
    assert client.queue(queue).statistics().put_total == 1
