"""The version of Telesto, from which pyproject.toml takes that of the distribution.

To ask the installed distribution for it would take 40 ms at the start of each client.
"""

VERSION = "0.1.0"
