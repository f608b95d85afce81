"""The file of a state: what was written is there, and nothing else, whatever happens to the file."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shells import MEMORY_DISK
from telesto.client.calls.state import (
    RequestPhase,
    Scope,
    StateChanges,
    StoredClient,
    StoredHandOver,
    StoredPosition,
    StoredRequest,
    StoredState,
)
from telesto.client.durable import state_codec, state_log
from telesto.client.durable.state_codec import decode, encode
from telesto.client.durable.state_directory import FILE_NAME, StateDirectory
from telesto.client.durable.state_log import StateLog
from telesto.client.errors import StateDamagedError, StateInUseError, StateWriteError
from telesto.protocol import packets
from telesto.protocol.packets import NewMessage

SCOPE = Scope("incarnation", 7)
CLIENT = StoredClient(b"t" * 16, 3, "alice", *reversed(SCOPE), 2)

numbers = st.integers(0, 2**64 - 1)
hand_overs = st.builds(StoredHandOver, st.just(0), st.just(SCOPE), numbers, numbers, numbers, st.booleans())
positions = st.builds(StoredPosition, st.just(SCOPE), st.just(0), numbers)
requests = st.builds(
    StoredRequest,
    st.just(0),
    st.just(SCOPE),
    numbers,
    numbers,
    st.integers(0, 2**16 - 1),
    st.binary(max_size=60),
    st.sampled_from(RequestPhase),
    st.binary(max_size=20),
)


@st.composite
def entries(draw: st.DrawFn, strategy: st.SearchStrategy[Any], key_name: str) -> dict[int, Any]:
    drawn = {key: draw(st.none() | strategy) for key in draw(st.sets(st.integers(0, 5)))}
    return {key: entry and replace(entry, **{key_name: key}) for key, entry in drawn.items()}


changes = st.builds(
    StateChanges,
    st.sampled_from([False, False, False, True]),
    st.just(CLIENT),
    entries(requests, "position"),
    entries(hand_overs, "position"),
    entries(positions, "subscription_id"),
)
clients = st.builds(
    StoredClient,
    st.binary(max_size=20),
    numbers,
    st.none() | st.text(),
    st.none() | numbers,
    st.text(),
    numbers,
).map(lambda client: client if client.client_id is not None else replace(client, incarnation=None))


@contextmanager
def some_directory() -> Iterator[Path]:
    """In memory where there is such a place: what is tested is what stands in the file."""
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as directory:
        yield Path(directory)


@pytest.fixture
def path() -> Iterator[Path]:
    with some_directory() as directory:
        yield directory / "log"


@contextmanager
def log(path: Path) -> Iterator[StateLog]:
    opened = StateLog(path)
    try:
        yield opened
    finally:
        opened.close()


def read_back(path: Path) -> StoredState:
    with log(path) as opened:
        return opened.stored


def put(position: int, size: int = 10) -> StateChanges:
    payload = packets.PutMessage(0, [], NewMessage(5, 0, bytes(size), None), [1]).encode(0)[10:]
    request = StoredRequest(position, SCOPE, 2, position, packets.PutMessage.METHOD_ID, payload)
    return StateChanges(client=CLIENT, requests={position: request})


def done(position: int) -> StateChanges:
    return StateChanges(requests={position: None})


# ---------------------------------------------------------------------------------- what is written
@given(changes)
def test_changes_are_decoded_as_they_were_encoded(drawn: StateChanges) -> None:
    assert decode(encode(drawn)) == drawn


@given(clients)
def test_clients_are_decoded_as_they_were_encoded(client: StoredClient) -> None:
    assert decode(encode(StateChanges(client=client))).client == client


@given(changes, st.data())
def test_what_is_cut_off_is_not_decoded(drawn: StateChanges, data: st.DataObject) -> None:
    encoded = encode(drawn)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with suppress(ValueError):
        assert encode(decode(cut)) != encoded


@settings(max_examples=150)
@given(
    operations=st.lists(changes, max_size=8),
    kept=st.floats(0, 1),
    tail=st.binary(max_size=30),
    compacted=st.booleans(),
)
def test_a_truncated_log_holds_a_prefix(
    operations: list[StateChanges], kept: float, tail: bytes, compacted: bool
) -> None:
    with some_directory() as directory:
        check_truncated(directory / "log", operations, kept, tail, compacted)


def check_truncated(
    path: Path, operations: list[StateChanges], kept: float, tail: bytes, compacted: bool
) -> None:
    states = [StoredState()]
    with pytest.MonkeyPatch.context() as patch, log(path) as opened:
        if compacted:
            patch.setattr(state_log, "LOG_BYTES_MIN", 200)
        patch.setattr(state_log, "CHUNK_BYTES", 64)
        for operation in operations:
            opened.write(operation)
            states.append(deepcopy(opened.stored))
    whole = path.read_bytes()
    cut = path.parent / "cut"
    cut.write_bytes(whole[: int(len(whole) * kept)] + tail)
    try:
        found = read_back(cut)
    except StateDamagedError:
        assert int(len(whole) * kept) < 500, "only the first record may be missed"
    else:
        assert found in states
        assert read_back(cut) == found
    assert read_back(path) == states[-1]


@settings(max_examples=150)
@given(operations=st.lists(changes, min_size=1, max_size=6), data=st.data())
def test_a_damaged_log_is_refused_or_holds_a_prefix(
    operations: list[StateChanges], data: st.DataObject
) -> None:
    with some_directory() as directory:
        check_damaged(directory / "log", operations, data)


def check_damaged(path: Path, operations: list[StateChanges], data: st.DataObject) -> None:
    states = [StoredState()]
    ends = []
    with log(path) as opened:
        for operation in operations:
            opened.write(operation)
            states.append(deepcopy(opened.stored))
            ends.append(opened.end)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, ends[-1] - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    last_begins = ends[-2] if len(ends) > 1 else ends[-1]
    if place < last_begins and len(ends) > 1:
        with pytest.raises(StateDamagedError):
            read_back(path)
        assert path.read_bytes() == content, "a damaged log is left as it is"
    else:
        try:
            assert read_back(path) == states[-2]
        except StateDamagedError:
            assert place < last_begins


def test_a_record_can_be_written_behind_a_torn_one(path: Path) -> None:
    with log(path) as opened:
        opened.write(put(1))
        end = opened.end
        opened.write(put(2))
    content = bytearray(path.read_bytes())
    content[end + 30] ^= 1
    path.write_bytes(content)
    with log(path) as opened:
        assert list(opened.stored.requests) == [1]
        opened.write(put(3))
    assert list(read_back(path).requests) == [1, 3]


def test_a_log_inside_a_message_is_not_taken_for_records(path: Path, tmp_path: Path) -> None:
    with log(tmp_path / "other") as other:
        other.write(put(7))
    inner = (tmp_path / "other").read_bytes().rstrip(b"\0")
    with log(path) as opened:
        opened.write(put(1))
        end = opened.end
        request = replace(put(2).requests[2], payload=inner)  # type: ignore[type-var]
        opened.write(StateChanges(requests={2: request}))
    content = bytearray(path.read_bytes())
    content[end + 1] ^= 1
    path.write_bytes(content)
    assert list(read_back(path).requests) == [1]


def test_a_file_of_somebody_else_is_refused(path: Path) -> None:
    for content in (b"", b"somebody's notes", b"SQLite format 3\0" + bytes(5000)):
        path.write_bytes(content)
        with pytest.raises(StateDamagedError, match="move its directory away"):
            StateLog(path)
        assert path.read_bytes() == content


def test_entries_of_several_clients_are_refused(path: Path) -> None:
    other = replace(put(1).requests[1], scope=Scope("another", 7))  # type: ignore[type-var]
    with log(path) as opened:
        opened.write(StateChanges(client=CLIENT, requests={1: other}))
    with pytest.raises(StateDamagedError, match="several clients"):
        StateLog(path)


# ---------------------------------------------------------------------------------- its length
def test_the_file_stays_as_small_as_what_counts(path: Path) -> None:
    with log(path) as opened:
        for position in range(1, 200):
            opened.write(put(position, 50_000))
            opened.write(done(position))
            assert path.stat().st_size <= state_log.LOG_BYTES_MIN + 2 * state_log.CHUNK_BYTES
        opened.write(put(200))
    assert list(read_back(path).requests) == [200]


def test_much_that_counts_is_not_written_again_and_again(path: Path) -> None:
    with log(path) as opened:
        for position in range(40):
            opened.write(put(position, 100_000))
        live = opened.end
        inode = path.stat().st_ino
        replacements = 0
        for position in range(100, 120):
            opened.write(put(position, 100_000))
            opened.write(done(position))
            replacements += path.stat().st_ino != inode
            inode = path.stat().st_ino
        assert replacements <= 1
        assert path.stat().st_size <= 2 * live + 2 * state_log.CHUNK_BYTES
    assert len(read_back(path).requests) == 40


KILLED_WHILE_COMPACTING = """
import os, signal, sys
from pathlib import Path
from telesto.client.durable import state_codec
from telesto.client.durable import state_log
from telesto.client.calls.state import StateChanges
from test_state_log import put, done

point = sys.argv[2]
log = state_log.StateLog(Path(sys.argv[1]))
log.write(put(1))
log.write(put(2))

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def then_kill(action):
    def both(*arguments):
        action(*arguments)
        kill()
    return both

def write_half(file, data, place):
    if file == log._file:
        write_all(file, data, place)
    else:
        os.pwrite(file, data[: len(data) // 2], place)
        kill()

write_all = state_log._write_all
if point == "write":
    state_log._write_all = write_half
elif point == "fsync":
    os.fsync = kill
elif point == "rename":
    Path.rename = kill
elif point == "renamed":
    Path.rename = then_kill(Path.rename)
elif point == "directory":
    state_log.flush_directory = kill
log.replace_at = 0
log.write(put(3))
"""


@pytest.mark.parametrize("point", ["write", "fsync", "rename", "renamed", "directory"])
def test_a_process_killed_while_compacting_loses_nothing(path: Path, point: str) -> None:
    arguments = [sys.executable, "-c", KILLED_WHILE_COMPACTING, str(path), point]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(arguments, env=environment, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    with log(path) as opened:
        assert list(opened.stored.requests) == [1, 2, 3]
        opened.write(done(1))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


# ---------------------------------------------------------------------------------- what cannot be written
@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_does_not_fit_on_the_disk_is_not_written(path: Path) -> None:
    with log(path) as opened:
        opened.write(put(1))
        with full_disk(path.stat().st_size):
            for _ in range(2):
                with pytest.raises(StateWriteError, match="cannot be written"):
                    opened.write(put(2, 2 * state_log.CHUNK_BYTES))
        assert list(opened.stored.requests) == [1]
        opened.write(put(3))
        opened.write(put(4))
    assert list(read_back(path).requests) == [1, 3, 4]


def test_what_could_not_be_flushed_is_not_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with log(path) as opened:
        opened.write(put(1))
        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(StateWriteError, match="Input/output error"):
            opened.write(put(2))
        monkeypatch.undo()
    assert list(read_back(path).requests) == [1]


def test_an_interrupted_write_can_be_repeated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C raises anywhere; whoever writes then tries once more."""
    for point in (
        (os, "pwrite"),
        (os, "fdatasync"),
        (os, "fsync"),
        (os, "close"),
        (Path, "rename"),
        (state_log, "flush_directory"),
        (state_codec, "encode"),
    ):
        path.unlink(missing_ok=True)
        with log(path) as opened:
            opened.write(put(1))
            opened.replace_at = 0
            interrupt_after(monkeypatch, *point)
            with pytest.raises(KeyboardInterrupt):
                opened.write(put(2))
            opened.write(put(2))
            opened.write(put(3))
        assert list(read_back(path).requests) == [1, 2, 3]


def interrupt_after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    original = getattr(owner, name)

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.undo()
        original(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/telesto")):
        with pytest.raises(StateWriteError, match="cannot be used"):
            StateDirectory(path)


# ---------------------------------------------------------------------------------- whose it is
def test_one_client_at_a_time_has_a_directory(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path)
    with pytest.raises(StateInUseError, match="another client of this process"):
        StateDirectory(tmp_path)
    first.close()
    first.close()
    with pytest.raises(StateWriteError, match="closed"):
        first.write(put(1))
    StateDirectory(tmp_path).close()


def test_another_process_is_named(tmp_path: Path) -> None:
    script = (
        "import sys; from telesto.client.durable.state_directory import StateDirectory; "
        "held = StateDirectory(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateInUseError, match=f"process {holder.pid}"):
            StateDirectory(tmp_path)
        holder.kill()
    StateDirectory(tmp_path).close()


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    held = StateDirectory(tmp_path)
    released, go_on = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        held.forked()
        os.write(released[1], b"x")
        os.read(go_on[0], 1)
        os._exit(0)
    try:
        os.read(released[0], 1)
        with pytest.raises(StateInUseError):
            StateDirectory(tmp_path)
        held.write(put(1))
        held.close()
        with_it = StateDirectory(tmp_path)
        assert list(with_it.stored.requests) == [1]
        with_it.close()
    finally:
        os.write(go_on[1], b"x")
        os.waitpid(child, 0)


def test_the_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "new" / "state")
    directory.close()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert (directory.path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_put_that_this_version_cannot_read_is_refused(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    unknown = StoredRequest(1, SCOPE, 2, 1, 0xEEEE, b"?")
    directory.write(StateChanges(client=CLIENT, requests={1: unknown}))
    directory.close()
    for _ in range(2):
        with pytest.raises(StateDamagedError, match="a later one"):
            StateDirectory(tmp_path)
