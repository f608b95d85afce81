"""Generates the protocol's Python code and its reference document from protocol/spec/telesto.toml.

It also generates the blocking client from the asyncio one, and the calls of procedures from their signatures.
"""
