"""Where the database is, so that one that was restored elsewhere is noticed."""

from alembic import op

revision = "0018"
down_revision = "0017"
rollout = "before"

# The server's identifier is made by initdb, and a table's oid when it is created. A dump that is restored has
# another table at least; pg_upgrade keeps the oid. Copies of the files keep both.
PLACE = """
ALTER TABLE telesto.installation ADD COLUMN system_identifier bigint, ADD COLUMN table_oid oid;
COMMENT ON COLUMN telesto.installation.system_identifier IS
    'Of pg_control_system() where the data was last known to be complete; null where that cannot be read.';
COMMENT ON COLUMN telesto.installation.table_oid IS 'Of this table, there.';
"""


def upgrade() -> None:
    """Add the columns; the upgrade that applies this fills them."""
    op.execute(PLACE)
