"""Telesto for the tests of an application: a plugin for pytest, see docs/how-to/testing.md.

Begin with `plugin`, which pytest loads and which imports nothing of Telesto until a fixture is used.
`service` is the process that it starts then.
"""
