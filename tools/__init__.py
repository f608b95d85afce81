"""Tools for the people who work on Telesto; not installed."""
