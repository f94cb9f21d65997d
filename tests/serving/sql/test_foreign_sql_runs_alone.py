"""Each statement has its own process with limits that the kernel enforces, and does not affect others."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from tandem.serving.sql import messages
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.messages import StatementRefused
from tandem.serving.sql.sandbox import Sandbox
from tandem.serving.sql.shared_tables import SharedTables, share


@dataclass
class Numbers:
    """One view of a thousand numbers; what is shared is told."""

    rows: SharedTables = field(default_factory=lambda: share(pa.table({"n": range(1000)})))
    told: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        return ["numbers", "others"]

    def share(self, names: Sequence[str]) -> dict[str, SharedTables]:
        self.told += names
        return dict.fromkeys(names, self.rows)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=30, memory=128 * MIB, rows=2000, bytes=MIB)) as made:
        yield made


def zygote(sandbox: Sandbox) -> psutil.Process:
    assert sandbox._zygote is not None
    return psutil.Process(sandbox._zygote.process.pid)


def waiting(sandbox: Sandbox, number: int) -> list[psutil.Process]:
    """The children, once there are so many."""
    found: list[psutil.Process] = []

    def look() -> bool:
        found[:] = [one for one in zygote(sandbox).children() if one.status() != psutil.STATUS_ZOMBIE]
        return len(found) == number

    until(look)
    return found


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while True:
        with suppress(psutil.NoSuchProcess):
            if condition():
                return
        assert time.monotonic() < end, condition
        time.sleep(0.005)


def test_a_waiting_process_has_one_thread_one_descriptor_and_an_empty_environment(sandbox: Sandbox) -> None:
    secrets = {name for name in os.environ if name not in {"LC_ALL", "TZ", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}}
    children = waiting(sandbox, 2)
    for process in [zygote(sandbox), *children]:
        assert not secrets & set(process.environ())
        assert process.num_threads() == 1
        assert os.getsid(process.pid) != os.getsid(0)
    until(lambda: all([one.name for one in Path(f"/proc/{child.pid}/fd").iterdir()] == ["0"] for child in children))


def test_only_the_views_that_are_named_are_sent(sandbox: Sandbox) -> None:
    views = Numbers()
    assert sandbox.run("WITH others AS (SELECT 1 AS n) SELECT sum(a.n) AS n FROM Numbers a, others", views).to_pylist() == [
        {"n": 499_500}
    ]
    sandbox.run("SELECT 1", views)
    assert views.told == ["numbers"]


def test_a_view_is_read_in_place_and_nobody_can_write_to_it(sandbox: Sandbox) -> None:
    views = Numbers(share(pa.table({"n": pa.array(range(40_000_000), pa.int64())})))
    assert views.rows.size > 2 * sandbox.limits.memory
    assert sandbox.run("SELECT max(n) AS n FROM numbers", views).to_pylist() == [{"n": 39_999_999}]
    with pytest.raises(OSError, match="not permitted"):
        os.pwrite(views.rows.file, b"x", 0)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("SELECT n.n FROM numbers n, range(3)", "the result has more than 2000 rows; add a LIMIT, or aggregate"),
        ("SELECT repeat('x', 10000) FROM numbers", "the result has more than 1 MiB; choose fewer columns or rows"),
        ("SELECT list(i) FROM range(1000000000) t(i)", "the statement needs more than its 128 MiB of memory"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT m FROM numbers", 'Referenced column "m" not found in FROM clause! Candidate bindings: "n"'),
        ("SELECT * FROM number", "no view 'number'; views: numbers, others"),
        ("SELECT 1; SELECT 2", "got 2 statements; expected exactly one SELECT"),
        (
            "SELECT hll_estimate('x'::BLOB)",
            "invalid argument of a hll function; expected the state of a hll sketch: Attempt to deserialize",
        ),
        ("SELECT kll_quantile(NULL, 2)", "invalid fraction 2.0 of kll_quantile; expected 0 to 1, such as 0.99"),
        ("SELECT error('no' || chr(27) || chr(10) || 'way')", "no\\x1b way"),
    ],
)
def test_a_refusal_is_one_sentence(sandbox: Sandbox, statement: str, sentence: str) -> None:
    with pytest.raises(StatementRefused) as refused:
        sandbox.run(statement, Numbers())
    assert str(refused.value).startswith(sentence)


def test_columns_of_one_name_are_told_apart(sandbox: Sandbox) -> None:
    found = sandbox.run("SELECT 1 AS n, 2 AS n, 3 AS n_1, 4 AS N", Numbers())
    assert found.column_names == ["n", "n_2", "n_1", "N_3"]
    assert [column.to_pylist() for column in found.columns] == [[1], [2], [3], [4]]


def test_each_statement_draws_new_random_numbers(sandbox: Sandbox) -> None:
    thrown = {sandbox.run("SELECT random() AS r, uuid() AS u", Numbers()).to_pylist()[0]["u"] for _ in range(4)}
    assert len(thrown) == 4


def test_statements_run_side_by_side_and_none_sees_another_end(sandbox: Sandbox) -> None:
    outcomes: list[str] = []

    def ask(statement: str) -> None:
        try:
            outcomes.append(str(sandbox.run(statement, Numbers()).to_pylist()))
        except StatementRefused as refused:
            outcomes.append(refused.reason)

    statements = ["SELECT max(n) AS n FROM numbers", "SELECT list(i) FROM range(1000000000) t(i)", "FROM nowhere"] * 4
    threads = [threading.Thread(target=ask, args=[statement]) for statement in statements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["[{'n': 999}]"] * 4 + ["limit"] * 4 + ["view"] * 4


def test_statements_work_after_all_processes_were_killed() -> None:
    with Sandbox(StatementLimits(seconds=30)) as sandbox:
        for process in [*zygote(sandbox).children(), zygote(sandbox)]:
            process.send_signal(signal.SIGKILL)
        psutil.wait_procs([zygote(sandbox)], timeout=0)
        sandbox._zygote.process.wait()
        assert sandbox.run("SELECT sum(n) AS n FROM numbers", Numbers()).to_pylist() == [{"n": 499_500}]


def test_the_end_of_a_child_does_not_interrupt_the_zygote(sandbox: Sandbox) -> None:
    # Two that ended at once made its handler run within itself, of which it died now and then.
    status = Path(f"/proc/{zygote(sandbox).pid}/status").read_text()
    handled = int(status.split("SigCgt:")[1].split()[0], 16)
    assert not handled & 1 << signal.SIGCHLD - 1


def test_children_are_reaped_even_if_the_parent_ignores_sigchld() -> None:
    ignored = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Sandbox(StatementLimits(seconds=30)) as sandbox:
            first = zygote(sandbox)
            for _ in range(5):
                sandbox.run("SELECT sum(n) AS n FROM numbers", Numbers())
            assert zygote(sandbox) == first
    finally:
        signal.signal(signal.SIGCHLD, ignored)


def test_ended_processes_do_not_accumulate(sandbox: Sandbox) -> None:
    for _ in range(20):
        sandbox.run("SELECT sum(n) AS n FROM numbers", Numbers())
    assert len(zygote(sandbox).children()) <= sandbox.ready + 2, "those of the last statements may not be reaped yet"


def test_nothing_is_left_after_close() -> None:
    with Sandbox(StatementLimits(seconds=30)) as sandbox:
        processes = [zygote(sandbox), *waiting(sandbox, 2)]
    gone, alive = psutil.wait_procs(processes, timeout=30)
    assert (len(gone), alive) == (3, [])


def test_a_process_ends_by_itself_after_its_time() -> None:
    with Sandbox(StatementLimits(seconds=1)) as sandbox:
        child = sandbox._waiting.popleft()
        waiting(sandbox, 2)
        messages.send(
            child.end, b'{"type":"statement","text":"SELECT count(*) FROM range(1000000000000) a WHERE hash(range) = 1"}'
        )
        assert messages.receive(child.end).body == b'{"type":"named","views":[]}'
        messages.send(child.end, b'{"type":"given","views":[],"size":0}')
        child.end.settimeout(30)
        with pytest.raises(messages.Broken):
            messages.receive(child.end)
        waiting(sandbox, 1)


def test_messages_that_are_too_long_are_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        messages.send(ours, b"{}", b"xx")
        with pytest.raises(messages.Broken, match="announced 2 and 2 bytes"):
            messages.receive(theirs, most=1)
