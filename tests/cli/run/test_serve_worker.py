"""A worker follows the hot tails from its start, and does not outlive their messages."""

import io
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import structlog

from cli.command.call import Call
from cli.run import serve_worker
from infra.settings import Settings
from ledger.realtime.hot_messages import HotMessage, HotStatus, framed
from serving.memory.hot_feed import HotFeed
from tests.serving.world import nine_hits

MESSAGE = framed(HotMessage(1, "hits", HotStatus("waits")))


class Ended(BaseException):
    """In place of the process's end."""


@pytest.mark.parametrize("stream", [MESSAGE, MESSAGE[:-1], MESSAGE + b"\0\0\0\1?"])
def test_a_worker_ends_that_gets_no_more_messages(stream: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    log = structlog.wrap_logger(None, processors=[structlog.testing.LogCapture()])
    with pytest.raises(Ended):
        serve_worker._follow(io.BytesIO(stream), HotFeed(time.monotonic), log)


def test_a_worker_follows_while_a_broker_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = nine_hits(tmp_path)
    theirs, ours = os.pipe()  # its end would end this process, so it stays open
    os.write(ours, MESSAGE)

    feed = HotFeed(time.monotonic)

    def hangs(_: Settings, __: Any) -> None:
        deadline = time.monotonic() + 10
        while not feed.statuses and time.monotonic() < deadline:
            time.sleep(0.01)
        raise Ended

    monkeypatch.setattr(serve_worker, "HotFeed", lambda _: feed)
    monkeypatch.setattr(serve_worker, "refuse_crc32", hangs)
    settings = Settings(state=str(world.state))
    bound = socket.create_server(("127.0.0.1", 0))
    pulse, beats = os.pipe()
    sockets = (str(tmp_path / "0"), str(tmp_path / "1"))
    order = serve_worker.Order(str(world.folder), False, settings, 0, sockets, bound.detach(), beats, theirs, None, None)
    with pytest.raises(Ended):
        serve_worker.run(Call(world.folder, json=False, debug=False, environ=dict(os.environ)), order)
    assert feed.statuses == {(1, "hits"): HotStatus("waits")}
    os.close(pulse)
    os.close(beats)
