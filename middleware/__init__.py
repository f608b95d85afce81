"""The middleware: asyncio processes without state of their own between the clients and PostgreSQL."""
