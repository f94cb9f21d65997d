"""A request to the object store fails, or its answer is lost, or the client is killed: nothing is lost, nothing counts twice.

A command ends well or says in a sentence what failed. It is typed again then, as documentation asks, and every answer is exact.
Each command's requests are numbered, so a fault has a place: the command and the request. A sweep reaches every place. Repeat
one run with

    python -m tests.batch.test_faults_of_an_object_store "reset after" PUT,POST,DELETE recompute-1:31 apply:4
"""

import ssl
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.maintain import maintain
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.cli.demo import s3_server
from tandem.infra import kafka
from tandem.infra.settings import KeepSettings, Settings, StorageSettings
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.publish import promotion
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.standing import StandingReleases
from tandem.views.errors import TandemError
from tandem.views.project.project import Project
from tests import one_process
from tests.batch.release.test_apply import CHANGED
from tests.batch.shop import DEFINITIONS, MemoryShop, answers, assert_true, records, rows_of, together, truth
from tests.infra.storage.go_s3 import go_bucket_behind
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import FAULTS, READS, WRITES, Faults, a_bucket
from tests.killed import Killed

T = TypeVar("T")
Place = tuple[str, int]
"""A command of the run, and one of its requests, from 1."""

PATIENCE: Final = {"backoff_config.init_backoff": "1ms", "backoff_config.max_backoff": "20ms", "timeout": "1s"}
_APART: Final = 7
"""Requests from one fault of a command to its next one: the client repeats a request with success meanwhile."""


@dataclass
class Bucket:
    """A bucket behind a proxy, and the numbers of the prefixes that runs have in it."""

    faults: Faults
    url: str
    options: Mapping[str, str]
    prefixes: Iterator[int] = field(default_factory=count)


@contextmanager
def a_proxied_bucket(of: Any = quick_bucket) -> Iterator[Bucket]:
    """A bucket whose clients read one certificate, since each reads all of the system and none needs any."""
    faults = Faults()
    with (
        TemporaryDirectory() as folder,
        a_bucket(faults, of=of) as (url, options),
        pytest.MonkeyPatch.context() as patch,
    ):
        if found := ssl.create_default_context().get_ca_certs(binary_form=True):
            Path(folder, "one.pem").write_text(ssl.DER_cert_to_PEM_cert(found[0]))
            patch.setenv("SSL_CERT_FILE", f"{folder}/one.pem")
        yield Bucket(faults, url, {**options, **PATIENCE})


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with a_proxied_bucket() as found:
        yield found


@dataclass
class Injured:
    """One run: faults at places, and the places that it came to."""

    faults: Faults
    fault: str
    methods: tuple[str, ...]
    due: Callable[[Place], bool]
    requests: dict[str, int] = field(default_factory=dict)
    met: set[Place] = field(default_factory=set)

    def typed(self, name: str, command: Callable[[], T]) -> T:
        """The result of a command, which is typed again if it ends in a sentence or is killed."""
        self.faults.plan(self.fault, self.methods, lambda number: self.due((name, number)))
        # Of a killed client nobody sees an error, and what it raises may hide that it was killed.
        try:
            return command()
        except (Exception, Killed) as error:
            if not isinstance(error, TandemError) and not self.faults.killed:
                raise
            self.faults.rest()
            return command()
        finally:
            self.requests[name] = len(self.faults.requests)
            self.met |= {(name, number) for number in self.faults.injured}
            self.faults.rest()


def released(shop: MemoryShop, command: str, work: Callable[[BatchRun, Callable[[], Project]], T]) -> T:
    """The result of a batch command, as the command line runs it."""
    run = shop.run(command)
    with run.releasing():
        return work(run, shop.project)


def promoted(shop: MemoryShop) -> None:
    with suppress(promotion.NotReady):
        promotion.promote(StandingReleases(shop.tables), None, days=7, max_lag=0, by="test", at=datetime.now(UTC))


def run(shop: MemoryShop, injured: Injured) -> None:
    """Archive and recompute twice, release changed definitions, and maintain, while events come."""
    logs = [records(71, 40), records(72, 25)]
    for number in (1, 2):
        shop.sell(logs[number - 1])
        injured.typed(f"archive-{number}", lambda: released(shop, "archive", write_archive.run))
        live = injured.typed(f"recompute-{number}", lambda: released(shop, "recompute", recompute.run)).publication
        assert_true(shop, live, together(*logs[:number]))
    every = together(*logs)
    shop.define(CHANGED)
    injured.typed("apply", lambda: released(shop, "apply", partial(apply.run, terms=Terms(max_lag=0))))
    # A promotion that went live although its answer was lost, typed again, is refused: nothing else is ready.
    injured.typed("promote", lambda: promoted(shop))
    live = Publications(shop.tables).latest()
    assert live is not None
    assert live.release > 1, "an apply that failed may have left release 2, which the next one replaces"
    for number in (1, 2):
        assert sum(row["n"] for row in answers(shop, live, "refunds")) == truth(every, below=-10).refunds
        copied = rows_of(shop, shop.tables.archive("sales"))
        assert copied.num_rows == sum(map(len, every.values()))
        assert [run.number for run in ArchiveLedger(shop.tables, "sales").runs()] == [1, 2]
        injured.typed(
            f"maintain-{number}", lambda: maintain.run(shop.settings, now=lambda: datetime.now(UTC), say=lambda _: None)
        )


def injured_run(bucket: Bucket, fault: str, methods: tuple[str, ...], due: Callable[[Place], bool]) -> Injured:
    """A whole run with this fault at the places that are due. Raises AssertionError, with how to repeat it."""
    injured = Injured(bucket.faults, fault, methods, due)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        broker = one_process.MemoryBroker()
        broker.stand_in(patch)
        log = broker.new_topic()
        storage = StorageSettings(root=f"{bucket.url}/{next(bucket.prefixes)}", options=dict(bucket.options))
        settings = Settings(state=str(folder / "state"), storage=storage, keep=KeepSettings(publications=1, days=0, file_hours=0))
        (folder / "tandem.toml").write_text('state = "state"\n')
        shop = MemoryShop(settings, kafka.connect(one_process.ADDRESS), log.topic, folder, log)
        shop.define(DEFINITIONS)
        try:
            run(shop, injured)
        except Exception as error:
            places = " ".join(f"{name}:{number}" for name, number in sorted(injured.met))
            again = f'python -m tests.batch.test_faults_of_an_object_store "{fault}" {",".join(methods)} {places}'
            raise AssertionError(f"{type(error).__name__}: {error}; repeat it: {again}") from error
    return injured


def sweep(bucket: Bucket, fault: str, methods: tuple[str, ...], *, apart: int) -> tuple[int, int]:
    """Runs until each request of a run without faults has met this fault. Returns the number of places and of runs."""
    whole = injured_run(bucket, fault, methods, lambda _: False).requests
    left = {(name, number) for name, requests in whole.items() for number in range(1, requests + 1)}
    places, runs = len(left), 0
    while left:
        first: dict[str, int] = {}
        for name, number in sorted(left):
            first.setdefault(name, number)
        chosen = {(name, number) for name, number in left if not (number - first[name]) % apart}
        met = injured_run(bucket, fault, methods, chosen.__contains__).met
        assert met, f"no run comes to {sorted(chosen)}"
        left, runs = left - met, runs + 1
    return places, runs


@pytest.mark.parametrize(("fault", "apart"), [("reset after", 7), pytest.param("killed after", 50, marks=pytest.mark.slow)])
def test_some_writes_fail(bucket: Bucket, fault: str, apart: int) -> None:
    """A sample of the sweep: one run, with faults in each command."""
    found = injured_run(bucket, fault, WRITES, lambda place: place[1] % apart == 3)
    met = defaultdict(list)
    for name, number in sorted(found.met):
        met[name].append(number)
    assert {"archive-1", "recompute-1", "apply"} <= met.keys()
    assert all(numbers[0] == 3 for numbers in met.values())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "cut short"])
def test_any_write_fails(bucket: Bucket, fault: str) -> None:
    places, runs = sweep(bucket, fault, WRITES, apart=_APART)
    sys.stdout.write(f"{fault}: {places} writes in {runs} runs\n")
    assert places > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("of", [s3_server.bucket, go_bucket_behind])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "cut short"])
def test_some_writes_fail_in_stores_of_others(of: Any, fault: str) -> None:
    """The sweeps use a store of our own, which is quick: here moto's server and versitygw take the same faults."""
    with a_proxied_bucket(of) as bucket:
        met = injured_run(bucket, fault, WRITES, lambda place: place[1] % _APART == 3).met
    assert {"archive-1", "recompute-1", "apply"} <= {name for name, _ in met}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", ["slow down", "reset before", "cut short"])
def test_any_read_fails(bucket: Bucket, fault: str) -> None:
    """A client that is killed at a read was killed before the next write, and a read has no effect to lose.

    An answer that is cut short may end the command; what it did not come to then, other runs come to.
    """
    for rest in range(_APART):
        met = injured_run(bucket, fault, READS, lambda place, rest=rest: place[1] % _APART == rest).met
        assert len(met) > (7 if fault == "cut short" else 100)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_some_reads_time_out(bucket: Bucket) -> None:
    for rest in range(0, 101, 25):
        assert injured_run(bucket, "time out before", READS, lambda place, rest=rest: place[1] % 101 == rest).met


def repeat(fault: str, methods: str, places: Collection[str]) -> None:
    """One run with this fault at places such as `apply:4`."""
    due = {(name, int(number)) for name, _, number in (place.partition(":") for place in places)}
    with a_proxied_bucket() as bucket:
        found = injured_run(bucket, fault, tuple(methods.split(",")), due.__contains__)
    sys.stdout.write(f"all answers are exact; requests of each command: {found.requests}; met: {sorted(found.met)}\n")


if __name__ == "__main__":
    repeat(sys.argv[1], sys.argv[2], sys.argv[3:])
