"""Generates the protocol's Python code and its reference document from protocol/spec/telesto.toml."""
