"""`tandem plan` says what differs from what is published, and by its exit code whether anything does."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.records import readable_rejects
from tandem.infra.settings import RegistrySettings
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.rates import Rate, RunRates
from tandem.ledger.publish.releases import Releases
from tandem.views.source.formats.schema_registry import SchemaKey
from tests.schema_server import schema_server
from tests.serving.world import DEFINITIONS, NOON, World, hit, position

PRICE = "    price: Annotated[Decimal, Scale(2)]\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return counted(tmp_path_factory.mktemp("world"))


def counted(folder: Path) -> World:
    """Forty events and a malformed record below the live cut."""
    made = World(folder)
    made.append(0, *(hit("/a", n) for n in range(1, 41)), b"no hit")
    made.trigger()
    made.recompute(position(41))
    made.file_in_archive()
    return made


def planned(capsys: pytest.CaptureFixture[str], folder: Path, definitions: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the document, and what a person is shown."""
    (folder / "definitions.py").write_text(definitions)
    code = main(["plan", "--project", str(folder), "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert main(["plan", "--project", str(folder)]) == code
    return code, document, capsys.readouterr().out


def test_nothing_differs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, shown = planned(capsys, world.folder, DEFINITIONS)
    assert (code, document["different"], document["release"]) == (0, False, 1)
    assert shown.endswith("nothing differs\n")


def test_formatting_and_units_are_shown_but_are_not_a_difference(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    text = DEFINITIONS.replace("bytes > 0", "bytes   >  0").replace(
        '"pages": approx_count_distinct("page")}', '"pages": approx_count_distinct("page")}, doc="x"'
    )
    code, document, shown = planned(capsys, world.folder, text)
    assert code == 0
    assert document["views"]["ever"]["changes"] == [
        {"words": "doc of view: none -> x", "kind": "none"},
        {"words": "filter, written otherwise", "kind": "none"},
    ]
    assert shown.endswith("only the text of definitions.py differs\n")


def test_each_view_has_its_changes_with_kind_and_work(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    text = DEFINITIONS.replace("bytes > 0", "bytes > 1").replace("inverse = ", "reverse = ").replace("inverse)", "reverse)")
    text = text.replace('"mean": mean("bytes")', '"mean": mean("bytes"), "least": mean("-bytes")')
    code, document, shown = planned(capsys, world.folder, text)
    assert code == 3
    assert document["views"]["per_page"] == {
        "status": "changed",
        "kind": "additive",
        "changes": [{"words": "measure 'least' added: mean(\"-bytes\")", "kind": "additive"}],
        "work": "compute only its new measures (least) from the events table of hits; all measures, if the new ones count other "
        "events",
    }
    told = {name: (view["status"], view["kind"], view["work"]) for name, view in document["views"].items()}
    assert told["ever"] == ("changed", "breaking", "compute it from the events table of hits")
    assert told["reverse"] == ("added", "none", None)
    assert told["inverse"] == ("removed", "breaking", None)
    assert (
        "\n~ view ever: changed, breaking\n      breaking: filter: bytes > 0 -> bytes > 1\n      to do: compute it from" in shown
    )
    assert "\n+ view reverse: added\n" in shown
    assert "\n- view inverse: removed\n" in shown


def test_definitions_of_the_same_meaning_compute_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A renamed view keeps its batch view; a docstring, a comment and the order of measures are no difference."""
    text = (
        DEFINITIONS.replace("inverse = ", "reverse = ").replace("inverse)", "reverse)").replace("class Hit", "# A hit\nclass Hit")
    )
    code, document, shown = planned(capsys, world.folder, text)
    assert (code, document["nothing_to_compute"], document["estimates"]) == (3, True, {})
    assert document["views"]["reverse"] == {
        "status": "added",
        "kind": "none",
        "changes": [{"words": "means what view 'inverse' means, and keeps its batch view", "kind": "none"}],
        "work": None,
    }
    assert "+ view reverse: added\n      none: means what view 'inverse' means, and keeps its batch view\n" in shown
    assert "\nnothing to compute: every view keeps the batch view of an equal published view" in shown
    # Beside the old one it is a view of its own.
    copy = (
        "inverse = View(reverse.source, keys=reverse.keys, where=reverse.where, window=reverse.window, measures=reverse.measures)"
    )
    both = text.replace("VIEWS = (", f"{copy}\nVIEWS = (inverse, ")
    _, document, shown = planned(capsys, world.folder, both)
    assert (document["nothing_to_compute"], document["apply"]["folds"]) == (False, {"hits": {"reverse": None}})
    assert "nothing to compute" not in shown


def test_a_changed_decoder_reads_the_archive(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, shown = planned(capsys, world.folder, DEFINITIONS.replace(PRICE, f"{PRICE}    note: str = ''\n"))
    assert code == 3
    assert document["sources"]["hits"]["work"] == "build its events table again, from the archive"
    assert {view["kind"] for view in document["views"].values()} == {"source"}
    assert "      source: event type Hit: field 'note' added: str = ''\n" in shown
    assert document["apply"]["keeps"] == {name: ["note"] for name in document["views"]}
    assert (
        "      to do: nothing, unless an archived record is rejected for note (a value of another type, or repeated): the view "
        "does not read them and keeps its batch view; otherwise compute it from the "
        "events table of hits, once that is built\n" in shown
    )


def test_invalid_definitions_cannot_be_planned(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = planned(capsys, world.folder, DEFINITIONS.replace("bytes > 0", "byte > 0"))
    assert code == 1
    assert "names a field 'byte' that Hit does not have" in document["error"]


def test_before_the_first_publication_everything_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    code, document, shown = planned(capsys, tmp_path, DEFINITIONS)
    assert (code, document["publication"], document["release"]) == (3, None, None)
    assert {one["status"] for one in (*document["sources"].values(), *document["views"].values())} == {"added"}
    assert shown.startswith("nothing is published yet\n+ source hits: added\n")
    assert not (tmp_path / ".tandem").exists()


def test_views_of_another_version_of_tandem_are_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same definitions, which an older kernel gave other fingerprints."""
    world = World(tmp_path)
    release = Releases(world.tables).load(1)
    views = {**release.views, "ever": "0" * 16}
    old = Releases(world.tables).store(release.files, sources=release.sources, views=views, by="test", at=NOON)
    live = Publications(world.tables).latest()
    assert live is not None
    Publications(world.tables).publish(lambda parent: parent and replace(parent, release=old.number, cuts={}))
    code, document, shown = planned(capsys, tmp_path, DEFINITIONS)
    assert (code, document["release"]) == (3, 2)
    assert {name: view["kind"] for name, view in document["views"].items()} == {
        "per_page": "none",
        "ever": "breaking",
        "inverse": "none",
    }
    assert "another version of Tandem" in shown


def test_the_plan_estimates_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the runs over the source before; what has to be decoded anew takes as long as such a run does."""
    made = counted(tmp_path)
    changed = DEFINITIONS.replace("bytes > 0", "bytes > 1")
    _, document, shown = planned(capsys, tmp_path, changed)
    estimate = document["estimates"]["hits"]
    assert (estimate["rows"], estimate["seconds"], estimate["runs"]) == (40, None, 0)
    assert estimate["bytes"] > 0
    assert "  source hits: about 40 rows to read, " in shown
    assert "; no estimate yet\n" in shown

    RunRates(made.tables).record(Rate(NOON, "hits", "full", rows=20, bytes=1, views=1, seconds=100.0))
    RunRates(made.tables).record(Rate(NOON, "hits", "raw", rows=20, bytes=1, views=3, seconds=100.0))
    _, document, shown = planned(capsys, tmp_path, changed)
    assert (document["estimates"]["hits"]["seconds"], document["estimates"]["hits"]["runs"]) == (200.0, 1)
    assert "; estimated 3 min\n" in shown
    _, document, _ = planned(capsys, tmp_path, DEFINITIONS.replace(PRICE, f"{PRICE}    note: str = ''\n"))
    assert (document["estimates"]["hits"]["rows"], document["estimates"]["hits"]["seconds"]) == (41, 205.0)
    _, document, _ = planned(capsys, tmp_path, DEFINITIONS)
    assert document["estimates"] == {}


def test_a_plan_counts_the_rejects_that_become_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new definitions decode them: those of a producer that left out a field, and not what is no JSON."""
    world = World(tmp_path)
    without = [hit("/a", n).replace(b'"bytes"', b'"size"') for n in range(7)]
    world.append(0, *(hit("/a", n) for n in range(20)), b"no hit", *without, b"nor this")
    world.trigger()
    world.recompute(position(29))
    world.file_in_archive()
    assert planned(capsys, tmp_path, DEFINITIONS)[1]["rejects"] == {}
    optional = DEFINITIONS.replace(
        "    bytes: int\n    price: Annotated[Decimal, Scale(2)]", "    price: Annotated[Decimal, Scale(2)]\n    bytes: int = 0"
    )
    code, document, shown = planned(capsys, tmp_path, optional)
    assert (code, document["rejects"]) == (3, {"hits": {"rejects": 9, "tried": 9, "readable": 7, "reasons": {"json": 2}}})
    assert "source hits: of 9 rejects 7 become readable; still rejected: 2 json" in shown
    monkeypatch.setattr(readable_rejects, "MOST", 4)
    assert "source hits: of the newest 4 of 9 rejects 3 become readable" in planned(capsys, tmp_path, optional)[2]


def test_a_plan_decodes_rejects_by_the_schemas_that_are_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And asks no registry, which may be away."""
    with schema_server() as server:
        server.add(7, {"type": "object"}, kind="JSON")
        server.add(8, {"type": "object"}, kind="JSON")
        decoder = f'event_time="moment", decoder=json(registry="{server.address}")'
        text = DEFINITIONS.replace('event_time="moment"', decoder).replace("import Event", "import json, Event")
        world = World(tmp_path, definitions=text)
        frame, without = b"\0\0\0\0\x07", hit("/a", 1).replace(b'"bytes"', b'"size"')
        world.append(0, *[frame + without] * 5, b"\0\0\0\0\x08" + without, b"no frame")
        world.trigger()
        world.recompute(position(7))
        world.file_in_archive()
        RegistrySchemas(RegistrySettings(), world.tables).fetch([SchemaKey(server.address, "JSON", "7")], source="s")
        asked = len(server.asked)
        optional = text.replace(
            "    bytes: int\n    price: Annotated[Decimal, Scale(2)]",
            "    price: Annotated[Decimal, Scale(2)]\n    bytes: int = 0",
        )
        document = planned(capsys, tmp_path, optional)[1]
    reasons = {"schema": 1, "format": 1}
    assert (document["rejects"], len(server.asked)) == (
        {"hits": {"rejects": 7, "tried": 7, "readable": 5, "reasons": reasons}},
        asked,
    )
