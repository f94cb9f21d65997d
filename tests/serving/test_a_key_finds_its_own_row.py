"""A value finds the row of the key that it is: True is not 1, and 1 is neither true nor "1", by every way of looking up."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tandem.serving.client.server_client import Refused, client
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.selection import BadSelection
from tests.serving.http.served import Asker, Served, serving
from tests.serving.world import DEFINITIONS, World, hit

KEYS = """
by_number = View(source=hits, keys={"k": "bytes"}, measures={"n": count()})
by_truth = View(source=hits, keys={"k": "bytes = 1"}, measures={"n": count()})
by_text = View(source=hits, keys={"k": "page"}, measures={"n": count()})
by_decimal = View(source=hits, keys={"k": "price"}, measures={"n": count()})
by_float = View(source=hits, keys={"k": "CAST(bytes AS DOUBLE)"}, measures={"n": count()})
SOURCES ="""
OWN: dict[str, tuple[Any, ...]] = {
    "by_number": (1, 1.0, Decimal(1)),  # the same number, whatever its type
    "by_truth": (True,),
    "by_text": ("1",),
    "by_decimal": (1, Decimal(1), Decimal("1.00")),
}
"""The values that find the row of 1, True or "1" in a program."""
VALUES = (True, 1, 1.0, "1", Decimal(1), Decimal("1.00"))
TEXTS: dict[str, tuple[Any, ...]] = {"by_number": ("1",), "by_truth": ("true",), "by_text": ("1",), "by_decimal": ("1", "1.0")}
"""The texts that find it in a URL."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    definitions = DEFINITIONS.replace("SOURCES =", KEYS).replace(
        "VIEWS = (", "VIEWS = (by_number, by_truth, by_text, by_decimal, by_float, "
    )
    made = World(tmp_path_factory.mktemp("world"), definitions=definitions)
    made.append(0, hit("1", 1, price="1.00"))
    made.trigger()
    return made


@pytest.fixture(scope="module")
def asker(world: World) -> Iterator[Asker]:
    with Served(world).asker() as found:
        yield found


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("memory", [2**28, 1], ids=["memory", "files"])
def test_in_a_program(world: World, name: str, value: Any, memory: int) -> None:
    view = Connection(Store(world.tables, 1, memory)).view(name)
    ways = [lambda: view.get({"k": value}), lambda: view.lookup([{"k": value}]).to_arrow().to_pylist()]
    same = any(value == own and type(value) is type(own) for own in OWN[name])
    for way in ways:
        if same:
            assert way(), "its own row"
        else:
            with pytest.raises(BadSelection, match="invalid value"):
                way()


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("text", ["1", "1.0", "true", "True"])
def test_in_a_url(asker: Asker, name: str, text: str) -> None:
    for path in ("row", "rows"):
        answer = asker.get(f"/views/{name}/{path}?key.k={text}")
        found = answer.json().get("row") or answer.json().get("rows")
        own = text.lower() in TEXTS[name]
        assert bool(found) == own, answer.text
        assert answer.status_code == (200 if own or name == "by_text" else 400)


@pytest.mark.parametrize("memory", [2**28, 1], ids=["memory", "files"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("by_decimal", text) for text in ("0_1", " 1.00", "\u0661", "NaN")),
        *(("by_float", text) for text in ("nan", "-inf", "1_0")),
    ],
)
def test_what_python_alone_takes_for_a_number_is_refused_at_each_server(world: World, name: str, text: str, memory: int) -> None:
    served = Served(world)
    served.server.lane.cache.store.memory = memory
    with served.asker() as asker:
        asked = [asker.get(f"/views/{name}/{path}", params={"key.k": text}) for path in ("row", "rows")]
        for answer in (*asked, asker.post(f"/views/{name}/lookup", json={"keys": [{"k": text}]})):
            assert (answer.status_code, answer.json()["code"]) == (400, "selection-invalid"), answer.text


@pytest.mark.parametrize("path", ["row", "rows", "changes"])
def test_a_value_of_a_key_that_must_be_null_is_refused(asker: Asker, path: str) -> None:
    answer = asker.get(f"/views/by_text/{path}", params={"null": "k=1"}, headers={"Accept": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("invalid null='k=1'; expected the name of a key")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("value", [True, False, 1, 0, 1.0, "1", "true"], ids=repr)
def test_in_a_lookup_of_many(asker: Asker, name: str, value: Any) -> None:
    """A number also finds a text that is written like it, as in a URL; a truth value only another one."""
    answer = asker.post(f"/views/{name}/lookup", json={"keys": [{"k": value}]})
    written = str(value).lower() if isinstance(value, bool) else str(value)
    own = written in TEXTS[name] and (not isinstance(value, bool) or name == "by_truth")
    assert bool(answer.json().get("rows")) == own, answer.text
    assert answer.status_code in ((200,) if own else (200, 400))
    if isinstance(value, bool) and name != "by_truth":
        assert answer.status_code == 400


def test_in_a_lookup_of_the_client(world: World) -> None:
    served = Served(world)
    world.append(0, hit("true", 3))
    world.trigger()
    with serving(served) as address, client(address, served.token("client")) as asked:
        assert asked.lookup("by_truth", [{"k": True}, {"k": None}]).absent == (1,)
        assert asked.lookup("by_text", [{"k": "true"}]).absent == ()
        with pytest.raises(Refused, match="invalid value true of key 'k'; it has no boolean values"):
            asked.lookup("by_text", [{"k": True}])
