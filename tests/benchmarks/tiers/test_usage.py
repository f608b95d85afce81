"""What the operating system says about processes."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from telesto.benchmarks.tiers.machine import describe_machine, file_system
from telesto.benchmarks.tiers.usage import (
    children,
    cpu_seconds,
    parent_of,
    private_bytes,
    raise_open_files,
    tree_cpu_seconds,
)

BURN = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


def test_own_cpu_seconds_agree_with_the_interpreter() -> None:
    before, measured_before = time.process_time(), cpu_seconds([os.getpid()])
    while time.process_time() < before + 0.2:
        pass
    assert 0.1 < cpu_seconds([os.getpid()]) - measured_before < 0.4


def test_a_tree_keeps_the_seconds_of_children_that_ended() -> None:
    before = tree_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], timeout=60, check=True)
    assert tree_cpu_seconds(os.getpid()) - before > 0.15


def test_a_child_knows_its_parent() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in children(os.getpid())
        assert parent_of(child.pid) == os.getpid()
        assert private_bytes(child.pid) > 2**20
    finally:
        child.communicate(b"\n", 60)


def test_a_process_that_is_gone_uses_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(60)
    assert (cpu_seconds([child.pid]), parent_of(child.pid)) == (0, 0)


def test_the_limit_of_open_files_is_never_lowered() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert raise_open_files(1) == soft
    assert raise_open_files(soft) == soft


def test_the_machine_is_described(tmp_path: Path) -> None:
    description = describe_machine()
    assert f"{os.cpu_count()} x" in description["processors"]
    assert description["telesto-mq"] != "absent"
    assert file_system(tmp_path)
