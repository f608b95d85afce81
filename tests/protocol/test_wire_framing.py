"""The frame decoder: any division of the stream gives the same frames, and what it keeps has a bound."""

import itertools
import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telesto.protocol.errors import FatalError, FrameTooLargeError
from telesto.protocol.framing import FRAME_COST, Frame, FrameDecoder

MAX_FRAME = 64
PAYLOADS = st.binary(max_size=MAX_FRAME - 6)
FRAMES = st.builds(Frame, st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), PAYLOADS)


def encode(frame: Frame) -> bytes:
    rest = frame.method_id.to_bytes(2, "big") + frame.packet_id.to_bytes(4, "big") + frame.payload
    return len(rest).to_bytes(4, "big") + rest


def divide(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_division_gives_the_same_frames(frames: list[Frame], cuts: list[int]) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    got = []
    for piece in divide(b"".join(map(encode, frames)), cuts):
        got += decoder.feed(piece)
        assert decoder.buffered < MAX_FRAME + 4
    assert got == frames
    assert all(type(frame) is Frame and type(frame.payload) is bytes for frame in got)
    assert decoder.buffered == 0
    assert decoder.error is None


@given(st.lists(st.binary(max_size=80), max_size=8))
@settings(max_examples=300)
def test_random_bytes_give_frames_or_the_error_and_keep_little(pieces: list[bytes]) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    for piece in pieces:
        try:
            frames = decoder.feed(piece)
        except FrameTooLargeError:
            assert decoder.error is not None
            assert decoder.buffered == 0
        else:
            assert all(len(frame.payload) <= MAX_FRAME - 6 for frame in frames)
        assert decoder.buffered < MAX_FRAME + 4


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_bytes_is_taken(kind: type) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    frame = Frame(1, 2, b"abc")
    data = bytearray(encode(frame))
    assert decoder.feed(kind(data[:5])) == []
    got = decoder.feed(kind(data[5:])) + decoder.feed(kind(data))
    data[:] = bytes(len(data))
    assert got == [frame, frame]


@pytest.mark.parametrize("length", [0, 5, MAX_FRAME + 1, 2**32 - 1])
@pytest.mark.parametrize("head", [0, 1, 3])
def test_a_bad_length_is_refused_with_its_fourth_byte(length: int, head: int) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    data = length.to_bytes(4, "big")
    assert decoder.feed(data[:head]) == []
    with pytest.raises(FrameTooLargeError, match=str(length)) as caught:
        decoder.feed(data[head:])
    assert isinstance(caught.value, FatalError)
    assert decoder.error is not None
    assert decoder.error.details == caught.value.details
    assert decoder.buffered == 0


@pytest.mark.parametrize("length", [6, MAX_FRAME])
def test_the_shortest_and_the_longest_frame_are_taken(length: int) -> None:
    frame = Frame(1, 2, bytes(length - 6))
    assert FrameDecoder(MAX_FRAME).feed(encode(frame)) == [frame]


def test_frames_before_a_bad_one_are_returned_and_the_error_waits() -> None:
    decoder = FrameDecoder(MAX_FRAME)
    frame = Frame(1, 2, b"abc")
    assert decoder.feed(encode(frame) + b"\xff\xff\xff\xff" + bytes(500)) == [frame]
    assert isinstance(decoder.error, FrameTooLargeError)
    assert decoder.buffered == 0
    for _ in range(2):
        with pytest.raises(FrameTooLargeError):
            decoder.feed(encode(frame))
    assert decoder.buffered == 0


def test_a_length_beyond_the_limit_keeps_nothing() -> None:
    decoder = FrameDecoder(4096)
    head = (1 << 30).to_bytes(4, "big")
    tracemalloc.start()
    try:
        with pytest.raises(FrameTooLargeError):
            decoder.feed(head + bytes(100_000))
        for _ in range(100):
            with pytest.raises(FrameTooLargeError):
                decoder.feed(bytes(100_000))
        current, _ = tracemalloc.get_traced_memory()
        assert current < 100_000
    finally:
        tracemalloc.stop()
    assert decoder.buffered == 0


def test_a_long_frame_in_small_pieces_is_kept_once() -> None:
    size = 4_000_000
    decoder = FrameDecoder(size)
    data = encode(Frame(1, 2, bytes(size - 6)))
    tracemalloc.start()
    try:
        frames = [frame for at in range(0, len(data), 1000) for frame in decoder.feed(data[at : at + 1000])]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(frame.payload) for frame in frames] == [size - 6]
    assert peak < 4 * size
    assert decoder.buffered == 0


def test_the_limit_can_be_raised_between_two_calls() -> None:
    decoder = FrameDecoder(10)
    long = Frame(1, 2, bytes(20))
    decoder.feed(encode(Frame(1, 1, b"")))
    decoder.max_frame = 26
    assert decoder.feed(encode(long)) == [long]


def test_a_lower_limit_holds_for_the_frame_that_is_kept() -> None:
    decoder = FrameDecoder(26)
    data = encode(Frame(1, 2, bytes(20)))
    decoder.feed(data[:8])
    decoder.max_frame = 10
    with pytest.raises(FrameTooLargeError, match="at most 10"):
        decoder.feed(data[8:])
    assert decoder.buffered == 0


def test_a_limit_below_a_header_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 6"):
        FrameDecoder(5)


def test_the_error_says_what_is_allowed() -> None:
    with pytest.raises(FrameTooLargeError, match="a frame of 5000 bytes; at most 4096 are allowed"):
        FrameDecoder(4096).feed((5000).to_bytes(4, "big"))
    with pytest.raises(FrameTooLargeError, match="a frame of 3 bytes; a header alone has 6"):
        FrameDecoder(4096).feed((3).to_bytes(4, "big"))


def test_what_is_kept_of_a_frame_can_be_forgotten() -> None:
    decoder = FrameDecoder(1 << 20)
    decoder.feed(struct.pack(">IHI", 100, 1, 1) + bytes(50))
    assert decoder.buffered == 60
    decoder.clear()
    assert decoder.buffered == 0
    assert [frame.packet_id for frame in decoder.feed(struct.pack(">IHI", 6, 1, 2))] == [2]


@given(
    st.lists(FRAMES, max_size=12),
    st.lists(st.integers(0, 10_000), max_size=6),
    st.lists(st.integers(1, 3 * (FRAME_COST + MAX_FRAME)), min_size=1, max_size=5),
)
def test_any_size_gives_the_same_frames(frames: list[Frame], cuts: list[int], sizes: list[int]) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    got: list[Frame] = []
    size_of = itertools.cycle(sizes)
    for piece in divide(b"".join(map(encode, frames)), cuts):
        data = piece
        while data or decoder.waiting:
            size = next(size_of)
            came = decoder.feed(data, size)
            assert len(came) <= max(1, -(-size // FRAME_COST))
            # What is beyond the size waits whole, and nothing else is kept beside it.
            assert not (decoder.waiting and decoder.buffered)
            got += came
            data = b""
    assert got == frames
    assert (decoder.buffered, decoder.waiting) == (0, 0)


def test_data_that_comes_while_frames_wait_stands_behind_them() -> None:
    decoder = FrameDecoder(MAX_FRAME)
    frames = [Frame(1, number, b"abc") for number in range(5)]
    stream = b"".join(map(encode, frames))
    assert decoder.feed(stream[:40], 1) == frames[:1]
    assert decoder.waiting == 27
    assert decoder.feed(stream[40:], 1) == frames[1:2]
    assert decoder.feed(b"") == frames[2:]
    assert decoder.waiting == 0


def test_a_bad_length_behind_frames_that_wait_is_found_when_they_are_taken() -> None:
    decoder = FrameDecoder(MAX_FRAME)
    frame = Frame(1, 2, b"abc")
    assert decoder.feed(2 * encode(frame) + b"\xff\xff\xff\xff", 1) == [frame]
    assert decoder.error is None
    assert decoder.feed(b"") == [frame]
    assert decoder.error is not None


def test_frames_that_wait_can_be_forgotten() -> None:
    decoder = FrameDecoder(MAX_FRAME)
    assert len(decoder.feed(3 * encode(Frame(1, 1, b"")), 1)) == 1
    decoder.clear()
    assert decoder.waiting == 0
    assert decoder.feed(encode(Frame(1, 2, b""))) == [Frame(1, 2, b"")]
