"""The loop of these tests closes whatever a test has left open, and tells it."""

import asyncio
import socket

import pytest

from loops import TellingLoop


def test_a_connection_that_is_left_open_is_closed_and_told() -> None:
    loop = TellingLoop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loop.run_until_complete(loop.create_connection(asyncio.Protocol, *listener.getsockname()))
        peer, _ = listener.accept()
        with peer:
            with pytest.raises(ResourceWarning, match="unclosed resource <TCPTransport"):
                loop.close()
            assert loop.is_closed()
            peer.settimeout(60)
            assert peer.recv(1) == b""


async def test_it_is_the_loop_of_these_tests() -> None:
    assert isinstance(asyncio.get_running_loop(), TellingLoop)
