"""The library's own requests fit the smallest frames that it can be told to accept."""

import pytest

from telesto.client import ClientOptions, InvalidParameterError
from telesto.client.bookkeeping.confirmations import CONFIRM_ITEMS_MAX
from telesto.client.bookkeeping.consumer_calls import LEASES_MAX
from telesto.client.bookkeeping.received_messages import RELEASE_ITEMS_MAX
from telesto.client.options import LIBRARY_FRAME_LEAST
from telesto.middleware.common.settings import ServerSettings
from telesto.protocol import packets

_LARGE = 2**62
_UNCONFIRMED: int = ServerSettings.model_fields["max_unconfirmed"].default
_ALL_NUMBERS = [_LARGE] * _UNCONFIRMED
_LEASES = [packets.LeaseRef(_LARGE, _LARGE, _LARGE)] * LEASES_MAX


@pytest.mark.parametrize(
    "request_packet",
    [
        packets.Confirm(
            [_LARGE] * CONFIRM_ITEMS_MAX,
            [packets.OperationRef(_LARGE, _LARGE)] * CONFIRM_ITEMS_MAX,
            [packets.HandOverRef(_LARGE, _LARGE, _LARGE)] * CONFIRM_ITEMS_MAX,
        ),
        packets.Release([packets.HandOverRef(_LARGE, _LARGE, _LARGE)] * RELEASE_ITEMS_MAX),
        packets.Ack(_LARGE, _ALL_NUMBERS, _LEASES),
        packets.Nack(_LARGE, _ALL_NUMBERS, _LEASES, failed=True),
        packets.Touch(_LEASES),
        packets.Begin(_LEASES, True),
    ],
    ids=lambda packet: type(packet).__name__,
)
def test_the_largest_requests_fit_the_smallest_frames(request_packet: packets.Packet) -> None:
    assert len(request_packet.encode(1)) - 4 <= LIBRARY_FRAME_LEAST


def test_smaller_frames_are_refused() -> None:
    """The protocol's least would not hold some of these requests."""
    assert packets.MAX_FRAME_LEAST < LIBRARY_FRAME_LEAST
    assert ClientOptions(max_frame=LIBRARY_FRAME_LEAST).max_frame == LIBRARY_FRAME_LEAST
    with pytest.raises(InvalidParameterError, match="max_frame must be at least 65536, not 65535"):
        ClientOptions(max_frame=LIBRARY_FRAME_LEAST - 1)


def test_every_middleware_accepts_them() -> None:
    assert (
        ServerSettings.load(max_frame=LIBRARY_FRAME_LEAST, max_body_bytes=0).max_frame == LIBRARY_FRAME_LEAST
    )
