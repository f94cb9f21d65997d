"""`tandem feed s3://BUCKET/PREFIX --follow`: each content of a prefix once in the topic, over restarts, kills and renames."""

import gzip
import json
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.demo.s3_server import bucket
from tandem.cli.log import folder_feed
from tandem.cli.log.inbox import BucketInbox, FileChanged, Look
from tandem.infra import kafka
from tandem.infra.storage.object_store import ObjectStore
from tandem.infra.storage.storage import InvalidName
from tandem.views.errors import TandemError
from tests.cli.log.test_a_folder_is_followed import Followed, rows
from tests.infra.storage.go_s3 import go_bucket
from tests.infra.storage.s3 import a_bucket
from tests.stack import PYTHONPATH, environ

pytestmark = pytest.mark.broker


class FollowedBucket(Followed):
    """A project with a prefix of a bucket that is followed, in this process."""

    def __init__(self, folder: Path, broker: kafka.BrokerConnection, inbox: BucketInbox) -> None:
        super().__init__(folder, broker)
        self.place, self.store = inbox, ObjectStore(inbox.address, inbox.options)

    def put(self, name: str, content: str | bytes) -> None:
        """A whole object, in place of another of its name."""
        with self.store.create(name) as upload:
            upload.stream.write(content.encode() if isinstance(content, str) else content)

    def rename(self, name: str, to: str) -> None:
        with self.store.open(name) as stream:
            self.put(to, stream.read())
        self.store.delete([name])


@pytest.fixture(params=[bucket, pytest.param(go_bucket, marks=pytest.mark.slow)])
def followed(tmp_path: Path, broker: kafka.BrokerConnection, request: pytest.FixtureRequest) -> Iterator[FollowedBucket]:
    of: Callable[..., Any] = request.param
    with a_bucket(of=of) as (url, options), BucketInbox(url, options) as inbox:
        yield FollowedBucket(tmp_path / "bucket-feed", broker, inbox)


@pytest.mark.slow
def test_each_object_is_sent_once_over_restarts_renames_and_copies(followed: FollowedBucket) -> None:
    followed.put("a.jsonl", rows(1, 2))
    followed.put("deep/er/b.jsonl.gz", gzip.compress(rows(3).encode()))
    followed.put("deep/_c.jsonl", rows(99))
    followed.put("_temporary/d.jsonl", rows(99))
    followed.put("deep/marker", b"")
    assert followed.run().sent == 3
    assert followed.run().sent == 0
    followed.rename("a.jsonl", "deep/a.jsonl")
    followed.put("a.jsonl", rows(4))
    followed.put("deeper.jsonl", rows(5))
    assert followed.run().sent == 2
    assert followed.sent() == [1, 2, 3, 4, 5]
    address = followed.store.url
    assert f"{address}/deep/a.jsonl has the content of a.jsonl, which was sent, so it is left out" in followed.said
    assert f"{address}/deep/er/b.jsonl.gz: 1 record sent" in followed.said


def test_what_an_object_gains_is_sent_alone(followed: FollowedBucket) -> None:
    followed.put("app.jsonl", rows(1, 2))
    followed.run()
    followed.put("app.jsonl", rows(1, 2, 3))
    followed.run()
    assert followed.sent() == [1, 2, 3]


@pytest.mark.slow  # the same steps are cut for a folder
def test_a_run_ends_at_any_step_and_the_next_one_goes_on(followed: FollowedBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_feed, "_MOST_RECORDS", 3)
    for end in range(8):
        followed.put(f"{end}/one.jsonl", rows(*range(20 * end, 20 * end + 7)))
        followed.put(f"{end}/two.jsonl", rows(*range(20 * end + 7, 20 * end + 20)))
        followed.run_until(end)
    followed.run()
    assert followed.sent() == [*range(160)]
    assert followed.run().sent == 0


def test_an_object_that_cannot_be_sent_is_named_by_its_address(followed: FollowedBucket) -> None:
    followed.put("bad.jsonl", "id,at\n" * 5)
    with pytest.raises(TandemError, match=f"5 of the first 5 records of {followed.store.url}/bad.jsonl"):
        followed.run()
    followed.put("bad.jsonl", rows(1))
    followed.put("torn.jsonl.gz", gzip.compress(rows(2).encode())[:-9])
    with pytest.raises(TandemError, match=f"{followed.store.url}/torn.jsonl.gz"):
        followed.run()
    followed.store.delete(["torn.jsonl.gz"])
    followed.run()
    assert followed.sent() == [1]


def test_an_object_that_is_gone_in_the_middle_is_named_once(followed: FollowedBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_feed, "_MOST_RECORDS", 2)
    followed.put("a.jsonl", rows(1, 2, 3))
    followed.run_until(1)
    followed.store.delete(["a.jsonl"])
    followed.put("b.jsonl", rows(4))
    with pytest.raises(TandemError, match=r"tables/a\.jsonl was changed or removed after 2 records of it; to send the others"):
        followed.run()
    followed.run()
    assert followed.sent() == [1, 2, 4]


def test_an_object_that_is_replaced_since_it_was_listed_is_not_read(followed: FollowedBucket) -> None:
    followed.put("a.jsonl", rows(1))
    (listed,) = followed.place.looks().items()
    followed.put("a.jsonl", rows(2, 3))
    with pytest.raises(FileChanged):
        followed.place.local(*listed)
    with pytest.raises(InvalidName):
        followed.place.local("../a.jsonl", listed[1])


class InboxOfARace(BucketInbox):
    """An inbox whose objects change right after the next look."""

    then: Callable[[], None] = staticmethod(lambda: None)

    def looks(self) -> Mapping[str, Look]:
        found = super().looks()
        self.then, then = (lambda: None), self.then
        then()
        return found


def test_an_object_that_is_replaced_while_the_rest_of_it_is_wanted_is_looked_at_again(
    followed: FollowedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content of which a part is sent begins the new one, so its rest is sent too."""
    monkeypatch.setattr(folder_feed, "_MOST_RECORDS", 2)
    followed.put("a.jsonl", rows(1, 2, 3))
    followed.run_until(1)
    with InboxOfARace(followed.store.url, followed.store.options) as inbox:
        inbox.then = lambda: followed.put("a.jsonl", rows(1, 2, 3, 4))
        followed.place = inbox
        followed.run()
    assert followed.sent() == [1, 2, 3, 4]


def test_nobody_else_may_read_the_copy_of_an_object(followed: FollowedBucket) -> None:
    followed.put("deep/a.jsonl", rows(1))
    followed.put("b.jsonl", rows(2))
    for name, look in followed.place.looks().items():
        copy = followed.place.local(name, look)
        private = [folder for folder in copy.parents if folder.name.startswith("tandem-feed-")]
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in private] == [0o700]


@pytest.mark.slow  # three processes
def test_the_command_follows_a_bucket_until_it_is_killed(followed: FollowedBucket) -> None:
    options = {name.upper(): value for name, value in followed.store.options.items()}
    followed.put("one.jsonl", rows(*range(12_000)))
    followed.put("two.jsonl", rows(*range(12_000, 24_000)))
    command = [sys.executable, "-m", "tandem.cli", "feed", followed.store.url, "--follow", "--source", "lines", "--json"]
    for least, end in ((3_000, signal.SIGKILL), (17_000, signal.SIGKILL), (24_000, signal.SIGTERM)):
        with subprocess.Popen(
            command,
            cwd=followed.project,
            env={**environ(), **options, "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            while followed.end_offsets() < least or (end == signal.SIGTERM and followed.sent() != [*range(24_000)]):
                assert process.poll() is None
            process.send_signal(end)
            shown, _ = process.communicate(timeout=300)
    assert (process.returncode, json.loads(shown)["source"]) == (0, "lines")
    assert followed.sent() == [*range(24_000)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["s3://bucket/prefix"], "is a bucket, which is followed: write --follow"),
        (["s3://bucket/prefix", "--follow", "--wait"], "leave --wait out"),
        (["s3:///prefix", "--follow"], "expected a bucket, and a prefix in it, such as s3://bucket/prefix"),
    ],
)
def test_a_wrong_address_of_a_bucket_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["feed", *words, "--source", "lines", "--project", str(tmp_path)]) != 0
    assert sentence in " ".join(capsys.readouterr().err.replace("│", " ").split())
