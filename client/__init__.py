"""The client library of Telesto."""
