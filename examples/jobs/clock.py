"""A periodic task beside the others; `telesto worker clock:app` runs them all."""

from jobs import FOLDER, app
from telesto.tasks import current_message


@app.periodic("* * * * * *")  # every second, so that there is something to see; "30 2 * * *" is half past two
@app.task(queue="ticks")
def tick() -> None:
    """Notes the time for which it runs: once for each, although each worker process knows the times."""
    with (FOLDER / "ticks").open("a") as ticks:
        ticks.write(current_message().headers["tick"] + "\n")
