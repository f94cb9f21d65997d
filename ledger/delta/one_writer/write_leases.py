"""Leases: one writer of tables on an object store, where an operating system's lock does not reach a second machine.

A lease is one row of a small table, `control/leases/<name>`, which each holder replaces by a conditional commit: owner, token,
duration. Its token is greater than that of every earlier holder, and fences commits
(ledger/delta/one_writer/refuse_other_writers.py).

Who may take it
    Anybody if it was never taken or was released; and who has seen the same row, unchanged, for its whole duration on a clock
    of its own. A holder replaces its row three times in a duration. No clock of one machine is compared with another's.

What a wrong clock, or a pause, can do
    A holder that stands still loses its lease. When it goes on, it finds by its own clock that it was not renewed, and stops by
    itself. If its clock stood still too, its next commit is fenced. Either costs the run and no rows.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event, Lock, Thread
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable

from tandem.infra import clock
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable, Vanished
from tandem.ledger.delta.one_writer.refuse_other_writers import LeaseLost
from tandem.ledger.delta.one_writer.write_locks import LockTimeout, at_most
from tandem.views.errors import TandemError

DURATION_S: Final = 30.0
"""How long a lease lasts that is not renewed: what a killed holder delays another machine."""

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("token", pa.int64()),
        ("what", pa.string()),
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("place", pa.string()),
        ("since", pa.timestamp("us", "UTC")),
        ("duration_s", pa.float64()),
        ("held", pa.bool_()),
    ]
)
_SETTINGS: Final = {
    # A row is replaced every few seconds: readers open few entries, and entries expire, which hold nothing of value.
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 1 days",
}
_RENEWALS: Final = 3
_LOOKS: Final = 20
"""In one duration, of a holder that renews and of a process that waits."""


@dataclass(frozen=True)
class Owner:
    """A process that holds a lease: its command, host, process id and, in UTC, since when.

    `place` names the lock file on its machine that the process holds as well; "" if it holds none.
    """

    what: str
    host: str
    pid: int
    since: datetime
    place: str = ""

    def __str__(self) -> str:
        return f"{self.what} (pid {self.pid} on {self.host}, since {self.since.isoformat(timespec='seconds')})"


@dataclass(frozen=True)
class LeaseRow:
    """The row of a lease. `id` differs in each; `held` is False once the owner has released it."""

    id: str
    token: int
    owner: Owner
    duration_s: float
    held: bool

    def to_row(self) -> Mapping[str, Any]:
        """The row of the table."""
        own = {name: getattr(self.owner, name) for name in ("what", "host", "pid", "place", "since")}
        return {"id": self.id, "token": self.token, **own, "duration_s": self.duration_s, "held": self.held}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "LeaseRow":
        """Inverse of `to_row`."""
        owner = Owner(row["what"], row["host"], row["pid"], row["since"], row["place"])
        return cls(row["id"], row["token"], owner, row["duration_s"], row["held"])


@dataclass
class Lease:
    """A lease that this process has taken. Its thread-safe methods raise TandemError.

    `until` is the time on `clock` at which it ends unless it is renewed.
    """

    tables: Tables
    name: str
    record: LeaseRow
    until: float
    clock: Callable[[], float] = field(repr=False)
    _handle: DeltaTable = field(repr=False)
    _why: str = ""
    _ends: Event = field(default_factory=Event, repr=False)
    _one: Lock = field(default_factory=Lock, repr=False)
    _thread: Thread | None = field(default=None, repr=False)

    @property
    def token(self) -> int:
        """The token of its holder's commits."""
        return self.record.token

    def check(self) -> None:
        """Raise LeaseLost if it has ended: it was not renewed in time, or another process has taken it."""
        if not self._why and self.clock() >= self.until:
            self._why = f"was not renewed for {self.record.duration_s:.0f} s"
        if self._why:
            raise LeaseLost(
                f"the lease of {self.name!r} tables {self._why}, so another machine may write now; this run stops and its files "
                "belong to no table; run the command again"
            )

    def now_held(self) -> str:
        """The process that took it last, in words."""
        try:
            record = read(self.tables, self.name)
        except TandemError:
            record = None
        return "another process" if record is None else str(record.owner)

    def renew(self) -> None:
        """Replace the row, which then lasts for another duration. Raises LeaseLost, Unreadable, Unwritable."""
        with self._one:
            self.check()
            self._replace(replace(self.record, id=uuid4().hex))

    def release(self) -> None:
        """End it, and record that it is free, unless that fails or it was lost: then it ends with its duration."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
        with self._one:
            if self._why:
                return
            try:
                self._replace(replace(self.record, id=uuid4().hex, held=False))
            except TandemError:
                return
            finally:
                self._why = "was released"

    def keep(self, *, lost: Callable[[], object] = lambda: None) -> None:
        """Renew it in a thread until `release`; `lost` is called once if it cannot be renewed in time."""
        self._thread = Thread(target=self._keep, args=(lost,), name=f"lease {self.name}", daemon=True)
        self._thread.start()

    def _keep(self, lost: Callable[[], object]) -> None:
        pause = self.record.duration_s / _RENEWALS
        while not self._ends.wait(pause):
            try:
                self.renew()
                pause = self.record.duration_s / _RENEWALS
            except LeaseLost:
                lost()
                return
            except TandemError:
                pause = self.record.duration_s / _LOOKS  # the storage is away: as often as there is time

    def _replace(self, record: LeaseRow) -> None:
        began = self.clock()
        for _ in range(2):
            self._handle, found = _newest(self._handle)
            if found is None or found.token != self.token:
                self._why = f"was taken by {'another process' if found is None else found.owner}"
                self.check()
            try:
                _put(self._handle, record)
            except (Conflict, Unwritable):
                # A repeated put may find its own commit. A row of this token is of no other process, so it may be replaced again.
                self._handle = delta_tables.reopen(self._handle)
                continue
            self._handle = delta_tables.refresh(self._handle)
            self.record, self.until = record, began + record.duration_s
            return
        raise Unwritable(f"cannot renew the lease of {self.name!r} tables")


def read(tables: Tables, name: str) -> LeaseRow | None:
    """The row of a lease now; None if it was never taken. Raises Unreadable."""
    handle = delta_tables.open_table(tables, _address(tables, name))
    return None if handle is None else _newest(handle)[1]


def names(tables: Tables) -> list[str]:
    """The names of the leases that were ever taken, sorted."""
    return tables.names("control", "leases")


def written(tables: Tables, name: str) -> tuple[LeaseRow, datetime] | None:
    """The row of a lease now, and when its owner wrote it by the owner's clock; None if it was never taken. Raises Unreadable."""
    handle = delta_tables.open_table(tables, _address(tables, name))
    if handle is None:
        return None
    handle, record = _newest(handle)
    if record is None:
        return None
    (at,) = pa.table(handle.get_add_actions())["modification_time"].cast(pa.timestamp("ms", "UTC")).to_pylist()
    return record, at


def take(
    tables: Tables,
    name: str,
    owner: Owner,
    *,
    patience: float,
    say: Callable[[str], None],
    duration_s: float = DURATION_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Lease:
    """Take the lease: wait for its holder for at most `patience` seconds of `clock`, which never goes back.

    A lease whose owner held the same lock file as this process holds now is taken at once: its process has ended. `say` is called
    once with a sentence that names a holder that is waited for. Raises LockTimeout, Unreadable, Unwritable.
    """
    handle = delta_tables.create_table(tables, _address(tables, name), SCHEMA, _SETTINGS)
    began, seen, since, said = clock(), "", 0.0, False
    while True:
        handle, found = _newest(handle)
        now = clock()  # after the read: the holder began its renewal earlier, and judges by an earlier time
        if found is not None and found.id != seen:
            seen, since = found.id, now
        if found is None or _free(found, owner) or now - since >= found.duration_s:
            record = LeaseRow(uuid4().hex, 1 + (found.token if found else 0), owner, duration_s, held=True)
            until = clock() + duration_s
            try:
                _put(handle, record)
            except (Conflict, Unwritable) as error:
                handle = delta_tables.reopen(handle)
                if _stored(handle) == record:
                    return Lease(tables, name, record, until, clock, handle)
                if isinstance(error, Unwritable):
                    raise
                continue
            return Lease(tables, name, record, until, clock, delta_tables.refresh(handle))
        if now - began >= patience:
            raise LockTimeout(
                f"{found.owner} still holds the lease of {name!r} tables after {now - began:.0f} s; wait for it or stop it, then "
                "run again"
            )
        if not said:
            say(f"waiting for {found.owner}{at_most(patience)}; if it has ended, its lease ends within {found.duration_s:.0f} s")
            said = True
        sleep(min(1.0, found.duration_s / _LOOKS))
        handle = delta_tables.refresh(handle)


def _free(found: LeaseRow, owner: Owner) -> bool:
    return not found.held or (bool(owner.place) and found.owner.place == owner.place)


def _put(handle: DeltaTable, record: LeaseRow) -> None:
    rows = pa.Table.from_pylist([record.to_row()], SCHEMA)
    delta_tables.conditional_replace(handle, delta_tables.files(handle), [rows], at=clock.now())


def _stored(handle: DeltaTable) -> LeaseRow | None:
    rows = [row for path in delta_tables.files(handle) for row in delta_tables.read_file(handle, path).to_pylist()]
    return LeaseRow.from_row(rows[0]) if rows else None


def _newest(handle: DeltaTable) -> tuple[DeltaTable, LeaseRow | None]:
    """The row at the handle's version, or at the newest one if the row was replaced so long ago that its file is deleted."""
    while True:
        try:
            return handle, _stored(handle)
        except Vanished:
            newest = delta_tables.reopen(handle)
            if newest.version() == handle.version():
                raise
            handle = newest


def _address(tables: Tables, name: str) -> str:
    return tables.control("leases", name)
