"""CPU and memory are those of a process and everything below it, at the time that is asked for."""

import subprocess
import sys

import pytest

from tandem.bench.process_tree import ProcessSample, cpu_seconds, interpolated, pss_bytes, tree

MIB = 2**20


def started(code: str) -> "subprocess.Popen[bytes]":
    """A Python process that has run the code and waits for its input."""
    whole = f"{code}; print('done', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", whole], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_cpu_counts_children_that_have_ended() -> None:
    burn = "sum(i * i for i in range(10_000_000))"
    process = started(f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{burn}'])")
    assert [each.pid for each in tree(process.pid)] == [process.pid]
    assert cpu_seconds(process.pid) > 0.1
    process.communicate(b"\n", timeout=300)
    assert cpu_seconds(process.pid) == 0


def test_memory_that_a_child_shares_counts_once() -> None:
    fork = "import os; held = bytearray(os.urandom(64 << 20)); child = os.fork(); child or input()"
    process = started(fork)
    assert len(tree(process.pid)) == 2
    assert 64 * MIB < pss_bytes(process.pid) < 2 * 64 * MIB
    process.communicate(b"\n\n", timeout=300)


@pytest.mark.parametrize(("at", "cpu"), [(0.0, 1.0), (10.0, 1.0), (15.0, 2.0), (20.0, 3.0), (99.0, 3.0)])
def test_cpu_at_a_time_lies_between_the_samples_around_it(at: float, cpu: float) -> None:
    assert interpolated([ProcessSample(10.0, 1.0), ProcessSample(20.0, 3.0)], at) == cpu
