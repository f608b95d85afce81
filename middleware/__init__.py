"""The middleware of Telesto: accepts clients and calls the stored procedures in batches."""
