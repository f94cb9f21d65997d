"""The proxy of docs/several-servers.md: a token stays at one server, the first has the runs, and either may be away."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tandem.infra.process import ports
from tandem.serving.access.rights import VERBS
from tests.documented import DOCS
from tests.serving.http.served import Served, serving
from tests.serving.world import World, forty_hits

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
(SHOWN,) = re.findall(r"^```haproxy\n(.*?)^```$", (DOCS / "several-servers.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed: apt install haproxy")


@contextmanager
def proxy(folder: Path, changes: dict[str, str]) -> Iterator[str]:
    """The address of a proxy with the page's configuration after these changes of its text, without the page's own servers."""
    port = ports.unused()
    text = SHOWN.replace("127.0.0.1:8600", f"127.0.0.1:{port}")
    for shown, address in changes.items():
        assert shown in text
        text = text.replace(shown, address.removeprefix("http://"))
    text = re.sub(r"^    server . 127\.0\.0\.1:864\d\n", "", text, flags=re.MULTILINE)
    (folder / "tandem.cfg").write_text(text)
    process = subprocess.Popen([str(HAPROXY), "-f", str(folder / "tandem.cfg")])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


def asked(served: Served, name: str) -> int:
    """How many requests of a token a server has answered."""
    return sum(line.get("who") == f"token:{name}" for line in served.lines)


def test_a_token_stays_at_a_server_while_it_lives(world: World, tmp_path: Path) -> None:
    first, second = Served(world), Served(world)
    names = [f"reader {number}" for number in range(20)]
    secrets = {name: first.token(name, may=VERBS) for name in names}

    def read(address: str, name: str, path: str) -> httpx.Response:
        return httpx.get(f"{address}{path}", headers={"Authorization": f"Bearer {secrets[name]}"}, timeout=60)

    with ExitStack() as stack:
        one = stack.enter_context(serving(first))
        with ExitStack() as other:
            two = other.enter_context(serving(second))
            address = stack.enter_context(proxy(tmp_path, {"127.0.0.1:8641": one, "127.0.0.1:8642": two}))
            until(lambda: answers(address))
            for name in names * 3:
                page = read(address, name, "/views/per_page/rows?limit=3")
                assert page.status_code == 200
                assert read(address, name, f"/views/per_page/rows?limit=3&cursor={page.json()['next']}").status_code == 200
            counts = [(asked(first, name), asked(second, name)) for name in names]
            assert set(counts) == {(6, 0), (0, 6)}, "each token is at one of them, and both have some"
            assert all(read(address, name, "/runs").status_code == 200 for name in names)
            assert [asked(second, name) for name in names] == [there for _, there in counts], "the first has the runs"
        until(lambda: all(read(address, name, "/me").status_code == 200 for name in names))
