"""The event loop of production, which tells what a test leaves open instead of waiting for it."""

import warnings

import uvloop


class TellingLoop(uvloop.Loop):
    """uvloop's loop, for warnings that are errors.

    Its own `close` warns of each transport that is still open and closes it. A warning that raises keeps it
    from closing, and then it waits for the peer for ever, in C, where no signal is heard.
    """

    def close(self) -> None:
        """Close all transports and the loop, then warn of the first transport that was open."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            super().close()
        for warning in told:
            warnings.warn(warning.message, stacklevel=1)
