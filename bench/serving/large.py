"""Look-ups in a view that the server's memory has no room for: cold and warm, what a cold one reads, and other questions."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from tandem.bench.serving.measuring import apart
from tandem.bench.serving.published import VIEW, PublishedTail, files, page, publish
from tandem.bench.serving.questions import QuestionTimes, asked
from tandem.bench.serving.served import BenchClient, server
from tandem.ledger.delta.addresses import Tables
from tandem.serving.memory.store import SHARE_OF_READS
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.states import ReadCache

MEMORY_MB: Final = 256
"""The server's `serving.memory_mb` at most; less for a view that would fit in it."""
_ROW_BYTES: Final = 16
"""Less than a row needs in memory."""
LOOK_UPS: Final = 300
MANY: Final = 100
"""Keys of a look-up of many."""
LIMIT: Final = 100


@dataclass(frozen=True)
class ColdReads:
    """What the mean cold look-up of one key reads, once the footers of the files are in memory: row groups, requests and bytes.

    A file that is opened is a request for its size; a row group is one for its bytes.
    """

    row_groups: float
    requests: float
    bytes: float


@dataclass(frozen=True)
class LargeView:
    """One server of one view: seconds of questions, bytes in files, and the peak of the server's memory. `page` is the first one.

    `right` is whether each answer has the rows that were written.
    """

    keys: int
    memory_mb: int
    file_bytes: int
    files: int
    reads: ColdReads
    cold: QuestionTimes
    warm: QuestionTimes
    lookup_s: float
    page_s: float
    next_page_s: float
    changes_s: float
    peak_bytes: int
    right: bool

    def lines(self) -> Iterator[str]:
        """The figures for a person."""
        size = self.file_bytes / self.keys
        yield f"{self.keys:,} keys, {size:.1f} bytes each in {self.files} files; serving.memory_mb {self.memory_mb}"
        reads = self.reads
        yield f"a cold look-up reads {reads.row_groups:.2f} row groups: {reads.requests:.2f} requests, {reads.bytes:,.0f} bytes"
        for name, times in (("cold", self.cold), ("warm", self.warm)):
            yield f"{name} look-ups over HTTP: p50 {times.p50 * 1e3:,.1f} ms, p99 {times.p99 * 1e3:,.1f} ms"
        yield f"{MANY} keys at once {self.lookup_s:,.2f} s"
        yield f"the first page of all rows {self.page_s:,.1f} s, the next {self.next_page_s:,.3f} s"
        yield f"changes of {MANY} keys, from their commit on, {self.changes_s:,.2f} s"
        yield f"peak memory of the server {self.peak_bytes / 2**20:,.0f} MiB"
        yield "every answer was right" if self.right else "an answer was WRONG"


def measure(folder: Path, keys: int, say: Callable[[str], None]) -> LargeView:
    """Publish a view of N keys, and ask a server of it. Raises TandemError."""
    say(f"writing a view of {keys:,} keys")
    apart(publish, folder, keys)
    paths = [Path(path) for path in files(Tables(str(folder / ".tandem" / "tables")), VIEW)]
    memory_mb = max(1, min(MEMORY_MB, keys * _ROW_BYTES >> 20))
    say("reading single keys in process")
    reads = apart(cold_reads, folder, keys, (memory_mb << 20) // SHARE_OF_READS)
    say("asking a server")
    with server(folder, {"MEMORY_MB": memory_mb}) as (pid, client):
        numbers = np.unique(np.random.default_rng(1).integers(0, keys, LOOK_UPS)).tolist()
        spent, right = list[list[float]](), True
        for _ in range(2):
            answers = [_time(partial(client.document, _row(number))) for number in numbers]
            spent.append([seconds for _, seconds in answers])
            right &= all(
                answer["row"] is not None and answer["row"]["largest"] == n % 1000
                for n, (answer, _) in zip(numbers, answers, strict=True)
            )
        some = [page(number) for number in numbers[:MANY]]
        many, lookup_s = _time(partial(client.document, f"/views/{VIEW}/lookup", {"keys": [{"page": name} for name in some]}))
        first, page_s = _time(partial(client.document, f"/views/{VIEW}/rows?limit={LIMIT}"))
        path = f"/views/{VIEW}/rows?limit={LIMIT}&cursor={quote(first['next'] or '')}"
        second, next_page_s = _time(partial(client.document, path)) if first["next"] else (first, 0.0)
        right &= [row["page"] for row in many["rows"]] == some and _is_page(first, 0, keys) and _is_page(second, LIMIT, keys)
        changes, changes_s = _time(partial(_changes, folder, client, numbers[:MANY]))
        right &= changes == dict.fromkeys(some, 2)
        return LargeView(
            keys,
            memory_mb,
            sum(path.stat().st_size for path in paths),
            len(paths),
            reads,
            asked(spent[0]),
            asked(spent[1]),
            lookup_s,
            page_s,
            next_page_s,
            changes_s,
            _peak(pid),
            right,
        )


def cold_reads(folder: Path, keys: int, room: int) -> ColdReads:
    """What a look-up reads that finds nothing but footers in memory."""
    reader = Reader(Tables(str(folder / ".tandem" / "tables")), cache=ReadCache(room))
    reads, dice = reader.cache.reads, np.random.default_rng(2)
    for number in dice.integers(0, keys, LOOK_UPS).tolist():
        given(reader.answer(VIEW, keys={"page": page(number)}))
    before = reads.groups, reads.files, reads.footers, reads.bytes
    for number in dice.integers(0, keys, LOOK_UPS).tolist():
        given(reader.answer(VIEW, keys={"page": page(number)}))
    groups, opened, footers, size = (
        now - then for now, then in zip((reads.groups, reads.files, reads.footers, reads.bytes), before, strict=True)
    )
    return ColdReads(groups / LOOK_UPS, (opened + footers + groups) / LOOK_UPS, size / LOOK_UPS)


def _changes(folder: Path, client: BenchClient, numbers: list[int]) -> dict[str, int]:
    """Commit one more request of some pages; what a reader of changes then gets: pages, and their hits."""
    path, reader = f"/views/{VIEW}/changes", client.another(accept="application/json")
    update = reader.document(path)
    PublishedTail(folder, Tables(str(folder / ".tandem" / "tables"))).commit(np.array(numbers))
    while not update["rows"]:
        update = reader.document(f"{path}?since={quote(update['token'])}")
    reader.close()
    return {row["page"]: row["hits"] for row in update["rows"]}


def _is_page(document: Any, first: int, keys: int) -> bool:
    names = [page(number) for number in range(first, min(keys, first + LIMIT))]
    return document["total"] == keys and (keys <= LIMIT or [row["page"] for row in document["rows"]] == names)


def _row(number: int) -> str:
    return f"/views/{VIEW}/row?key.page={quote(page(number), safe='')}"


def _time(ask: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return ask(), time.perf_counter() - start


def _peak(pid: int) -> int:
    """The peak memory of a process in bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024
