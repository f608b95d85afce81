"""A consumer that works in the database and acknowledges there, as one, and says what it has begun.

It ends when it is killed.
"""

import json
import sys

import psycopg

from telesto.client import Message, TelestoClient

ACK = "SELECT telesto.ack(%s, %s, %s)"
WORK = "INSERT INTO work VALUES (%s)"


def main() -> None:
    task = json.loads(sys.argv[1])
    database = psycopg.connect(task["database_url"], autocommit=True)

    def handle(message: Message) -> None:
        with database.transaction():
            database.execute(ACK, message.lease)
            print(message.text, flush=True)
            database.execute(WORK, (message.text,))

    client = TelestoClient(task["url"], name=task["name"])
    client.connect()
    client.queue(task["queue_id"]).run_consumer(handle, ack_in_database=True, credit=8)


if __name__ == "__main__":
    main()
