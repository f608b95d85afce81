"""The jobs of a small office, as tasks; `telesto worker jobs:app` runs them."""

import asyncio
import os
from pathlib import Path

from telesto.tasks import App, current_message

FOLDER = Path(os.environ.get("JOBS_FOLDER", "."))

app = App()  # TELESTO_URL says where the service is


@app.task(queue="reminders", max_attempts=20, backoff=0.2)
def remind(customer: str, text: str) -> None:
    """Drops a note into the customer's mailbox. Without a mailbox it fails, and is tried again."""
    attempt = current_message().attempt
    print(f"remind {customer}, attempt {attempt}", flush=True)
    with (FOLDER / customer / "notes").open("a") as notes:
        notes.write(f"{text} (attempt {attempt})\n")


@app.task(queue="probes", timeout=1, max_attempts=2, backoff=0.1)
async def probe(host: str, port: int) -> None:
    """Notes what a server says first. One that says nothing for a second has failed."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        greeting = await reader.readline()
    finally:
        writer.close()
    (FOLDER / f"greeting-{port}").write_bytes(greeting)


@app.task(queue="counts")
def count_lines(source: str) -> None:
    """Counts the lines of a file; it may run twice, so its result replaces that of a run before."""
    path = Path(source)
    print(f"process {os.getpid()} counts {path.name}", flush=True)
    lines = len(path.read_text().splitlines())
    (FOLDER / f"{path.name}.count").write_text(str(lines))
