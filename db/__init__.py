"""The database of Telesto: schema, stored procedures and the embedded server."""
