"""An erasure while the speed layer, the hot tail and a server run: no part answers the records again, also after its restart."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tandem.serving.client.server_client import Client, Refused, client
from tandem.serving.read.provenance import Layer
from tests.end_to_end.test_parts_come_back import TOML, Stack, wait_for
from tests.speed.sales import project_files, sale

SECRET = "hidden-corner-shop"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    for name, content in project_files("sales").items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tandem.toml").write_text(TOML)
    stack = Stack(tmp_path)
    code, printed = stack.run("up", "--serve")
    assert code == 0, printed
    yield stack
    assert stack.run("down")[0] == 0


def feed(stack: Stack, first: int, *, secret: bool) -> None:
    """Ten sales, every second one in the shop to erase if it is to be there."""
    shops = ("b", SECRET if secret else "c")
    lines = b"".join(sale(n, seconds=n, shop=shops[n % 2], amount=n) + b"\n" for n in range(first, first + 10))
    code, printed = stack.run("feed", "-", "--source", "sales", given=lines)
    assert code == 0, printed


def rows(asked: Client, layer: Layer) -> dict[str, int]:
    return {row["shop"]: row["n"] for row in asked.rows("per_shop", layer=layer).rows}


def wait_until(asked: Callable[[], dict[str, int]], expected: dict[str, int]) -> None:
    def there() -> bool:
        try:
            return asked() == expected
        except (Refused, OSError):
            return False

    wait_for(there)


def files_with(folder: Path, text: bytes) -> list[str]:
    """The files of a state folder that have the text; not those of the broker, whose topic keeps its records."""
    files = (file for file in folder.rglob("*") if file.is_file() and "broker" not in file.relative_to(folder).parts[0])
    return [str(file.relative_to(folder)) for file in files if text in file.read_bytes()]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
def test_no_part_answers_erased_records_again(stack: Stack) -> None:
    state = stack.settings.folder
    address = stack.run("up", "--serve")[1]["addresses"]["serve"]
    secret = (state / "access" / "first.token").read_text().strip()
    with client(address, secret, timeout_s=60) as asked:
        feed(stack, 0, secret=True)
        wait_until(lambda: rows(asked, "merged"), {"b": 5, SECRET: 5})
        assert stack.run("archive")[0] == stack.run("recompute")[0] == 0
        feed(stack, 10, secret=True)
        wait_until(lambda: rows(asked, "merged"), {"b": 10, SECRET: 10})
        assert stack.run("archive")[0] == 0
        code, printed = stack.run("forget", "sales", "--where", f"shop = '{SECRET}'", "--yes")
        assert code == 0, printed
        wait_until(lambda: rows(asked, "merged"), {"b": 10})
        assert rows(asked, "batch") == {"b": 10}
        assert rows(asked, "speed") == {}
        code, proof = stack.run("forget", "sales", "--prove", "sales-erasure-1", "--where", f"shop = '{SECRET}'")
        assert (code, proof["hits"]) == (0, {})
        assert files_with(state, SECRET.encode()) == []
        for part in ("speed", "serve"):
            os.kill(stack.pid(part), signal.SIGKILL)
        feed(stack, 20, secret=False)
    wait_for(lambda: not any(map(stack.red, ("speed", "serve"))))
    address = stack.run("up", "--serve")[1]["addresses"]["serve"]
    with client(address, secret, timeout_s=60) as asked:
        wait_until(lambda: rows(asked, "merged"), {"b": 15, "c": 5})
        assert rows(asked, "batch") == {"b": 10}
        assert rows(asked, "speed") == {"b": 5, "c": 5}
    assert files_with(state, SECRET.encode()) == []
