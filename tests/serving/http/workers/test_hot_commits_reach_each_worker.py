"""The messages of one process of hot tails reach every worker, also a worker that starts later."""

import os
import signal
import time
from pathlib import Path

from ledger.realtime.hot_messages import HotMessage, framed
from serving.memory.hot_feed import HotFeed
from tests.serving.http.workers.served_by_workers import PAGE, Workers, wait_for, workers
from tests.serving.memory.test_answers_of_hot_commits import Hot
from tests.serving.world import World, hit, nine_hits
from tests.stack import PYTHONPATH

SENDS = """
import os, sys, time
from pathlib import Path

(Path(sys.argv[1]) / f"hot-{os.getpid()}").touch()
with (Path(sys.argv[1]) / "messages").open("rb") as messages:
    while True:
        sys.stdout.buffer.write(messages.read())
        sys.stdout.buffer.flush()
        time.sleep(0.05)
"""


class Recorded(HotFeed):
    """A feed that also writes its messages to a file."""

    file: Path

    def apply(self, message: HotMessage) -> None:
        super().apply(message)
        with self.file.open("ab") as messages:
            messages.write(framed(message))


def ends(server: Workers, world: World, secret: str) -> bool:
    """Whether each worker answers at the log's end, with hot commits."""
    found = [client.get(PAGE).json()["provenance"] for client in server.of_each(secret).values()]
    time.sleep(0.2)
    return [one["realtime"] for one in found] == [world.end.to_json()] * 2 and all(one["hot"] for one in found)


def test_each_worker_counts_hot_commits(tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    (beside / "speed" / "hot").mkdir(parents=True)
    for name in ("__init__.py", "hot/__init__.py"):
        (beside / "speed" / name).touch()
    (beside / "speed" / "hot" / "__main__.py").write_text(SENDS)
    (tmp_path / "project").mkdir()
    world = nine_hits(tmp_path / "project")
    for page in ("/a", "/b"):
        world.append(1, hit(page, 7))
    world.trigger()
    feed = Recorded(time.monotonic)
    feed.file = world.folder / "messages"
    feed.file.touch()
    hot = Hot(world, feed)
    environ = {"TANDEM_SERVING_HOT": "on", "PYTHONPATH": os.pathsep.join((str(beside), PYTHONPATH))}
    with workers(world, environ) as server:
        secret = server.token("is ahead")[1]
        for number in range(3):
            world.append(0, hit("/", number))
            hot.read(world.end)
            wait_for(lambda: ends(server, world, secret))
        os.kill(server.pids[0], signal.SIGKILL)
        wait_for(lambda: len(server.pids) == 2)
        wait_for(lambda: ends(server, world, secret))
        world.append(1, hit("/a", 9))
        hot.read(world.end)
        wait_for(lambda: ends(server, world, secret))
        assert len([*world.folder.glob("hot-*")]) == 1  # one process for all, which went on
