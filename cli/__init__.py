"""The command line of Telesto."""
