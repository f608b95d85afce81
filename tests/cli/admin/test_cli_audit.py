"""`telesto audit` shows what the database keeps."""

import psycopg

from command_line import CommandLine

OLD = "UPDATE telesto.audit SET at = at - interval '3 days' WHERE details ->> 'queue_name' = 'old'"


def test_what_the_database_keeps_is_shown_newest_last(bare_telesto: CommandLine, database_url: str) -> None:
    audit = ("audit", "--database-url", database_url)
    assert bare_telesto.objects(*audit) == []
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name in ("old", "one", "two"):
            connection.execute("SELECT telesto.create_queue(%s)", (name,))
        connection.execute("SELECT telesto.delete_queue(telesto.get_queue('one'))")
        connection.execute(OLD)
        (role,) = connection.execute("SELECT session_user::text").fetchone() or ()
    shown = bare_telesto.objects(*audit)
    assert [(line["event"], line.get("queue_name"), line["role"]) for line in shown] == [
        ("queue_created", "one", role),
        ("queue_created", "two", role),
        ("queue_deleted", None, role),
    ]
    created = bare_telesto.objects(*audit, "--since", "7d", "--event", "queue_created")
    assert [line["queue_name"] for line in created] == ["old", "one", "two"]
    (newest,) = bare_telesto.objects(*audit, "-n", "1")
    assert newest["event"] == "queue_deleted"
    header, first, *_ = bare_telesto.output(*audit).decode().splitlines()
    assert header.split("\t") == ["time (UTC)", "event", "outcome", "by", "from", "what"]
    cells = first.split("\t")
    assert cells[1:4] == ["queue_created", "done", role]
    assert "queue_name=one" in cells[5]


def test_who_changed_a_user_is_told_and_not_only_which(bare_telesto: CommandLine, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO telesto.users (name) VALUES ('shop')")
        (role,) = connection.execute("SELECT session_user::text").fetchone() or ()
    shown = bare_telesto.output("audit", "--database-url", database_url).decode().splitlines()[1].split("\t")
    assert (shown[1], shown[3]) == ("user_added", role)
    assert "user=shop" in shown[5]
