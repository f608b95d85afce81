"""Some seconds of the fuzzer, and what it would find."""

import random
import tempfile
from pathlib import Path

from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import MAX_FRAME_DEFAULT, REQUESTS, ConnectionState

from .frames import Mill
from .run import attack, complaints

#: Half of them with users.
SECONDS = 10.0


def test_a_service_stays_well_whatever_is_sent() -> None:
    # Not in tmp_path: for root, PostgreSQL has an account of its own, which pytest's directory keeps out.
    with tempfile.TemporaryDirectory() as directory:
        findings = attack(Path(directory), SECONDS, seed=1)
    assert not findings.failures, "\n\n".join(findings.failures)
    assert findings.rounds["served"] >= 2
    # It gets beyond the handshake, and has much refused.
    assert findings.answers["Success"]
    assert findings.answers["INVALID_PARAMETER"]
    assert findings.answers["MALFORMED_PACKET"]
    assert findings.answers["AuthenticateResponse"]


def test_every_request_of_a_client_is_tried() -> None:
    mill = Mill(random.Random(1))
    tried = set()
    for _ in range(5_000):
        decoder = FrameDecoder(MAX_FRAME_DEFAULT)
        frame, takes = mill.request(9, 1)
        if takes:
            tried |= {whole.method_id for whole in decoder.feed(frame)}
        elif not decoder.error:
            tried |= {int.from_bytes(frame[4:6], "big")}
    wanted = {method for method, info in REQUESTS.items() if ConnectionState.IDENTIFIED in info.allowed}
    assert wanted <= tried


def test_errors_in_the_log_are_complaints() -> None:
    log = "\n".join(
        (
            "2026-01-01T00:00:00Z [info     ] serving",
            "2026-01-01T00:00:00Z [error    ] failed",
            "Traceback (most recent call last):",
        )
    )
    assert len(complaints(log)) == 2
    assert not complaints("")
