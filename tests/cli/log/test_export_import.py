"""The output of `export` and `import`, and their errors; they need neither Spark nor a broker."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT
from tandem.infra.settings import RegistrySettings
from tandem.ledger.log.registry_schemas import RegistrySchemas, schemas_in
from tandem.views.decode.schema_ids import load_schemas, schemas_of
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.formats.schema_registry import FetchedSchema, SchemaKey
from tests.batch.filed import Filed, row
from tests.schema_server import schema_server
from tests.serving.world import DEFINITIONS, SOURCE, World

ASK = """
import sys
from tandem.cli.__main__ import main
here, there, folder = sys.argv[1:]
codes = [main(["export", "--all", folder, "--project", here]), *(main(["import", folder, "--project", there]) for _ in range(2))]
print(codes, {"pyspark", "pandas", "confluent_kafka", "kafka"} & set(sys.modules))
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "here").mkdir()
    made = World(tmp_path / "here")
    filed = Filed(made.tables, SOURCE)
    filed.name("hits", "T")
    filed.file([row("T", 0, offset) for offset in range(7)], {("T", 0): 9})
    filed.finish(decoder_fingerprint(made.project.sources[SOURCE]))
    return made


def test_an_archive_moves_to_another_project_without_spark_or_a_broker(world: World, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    other = World(tmp_path / "there")
    command = [sys.executable, "-c", ASK, str(world.folder), str(other.folder), str(tmp_path / "moved")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines() == [
        "hits: 7 records in 1 files, 0 gaps",
        "hits: 7 records imported, up to {T/0: 9}",
        "hits: nothing new, up to {T/0: 9}",
        "[0, 0, 0] set()",
    ]


def test_a_refused_export_or_import_is_one_sentence(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other")
    moved = str(tmp_path / "moved")
    assert main(["export", "hits", moved, "--json", "--project", str(world.folder)]) == 0
    exported = json.loads(capsys.readouterr().out)["sources"]
    assert exported == {"hits": {"topics": ["hits"], "covered": {"T": {"0": [[0, 9]]}}, "records": 7, "files": 1, "gaps": 0}}
    for command, code, sentence in (
        (["export", moved], 2, "name the sources to export, or use --all"),
        (["export", "--all", "hits", moved], 2, "name the sources to export, or use --all"),
        (["export", "hit", moved], 1, "no source 'hit'; sources: hits"),
        (["export", "hits", moved], 1, "is not empty; name an absent or empty folder"),
        (["import", str(tmp_path)], 1, "is not an export"),
    ):
        assert main([*command, "--project", str(world.folder)]) == code
        assert sentence in capsys.readouterr().err
    assert main(["export", "--all", str(tmp_path / "none"), "--project", str(other.folder)]) == 1
    assert "nothing is archived yet; run `tandem archive` first" in capsys.readouterr().err


def test_schemas_of_a_registry_move_with_the_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the exported source, also that an id has none; and of two answers the own one stays."""
    with schema_server() as server:
        decoder = f'event_time="moment", decoder=json(registry="{server.address}")'
        text = DEFINITIONS.replace('event_time="moment"', decoder).replace("import Event", "import json, Event")
        (tmp_path / "here").mkdir()
        (tmp_path / "there").mkdir()
        here, there = World(tmp_path / "here", definitions=text), World(tmp_path / "there", definitions=text)
        server.add(1, {}, kind="JSON")
        server.add(3, {}, kind="JSON")
        keys = [SchemaKey(server.address, "JSON", each) for each in ("1", "2", "3")]
        fetch(here, [*keys, SchemaKey(server.address, "AVRO", "1")])
        del server.schemas["3"]
        fetch(there, keys[2:])
    filed = Filed(here.tables, SOURCE)
    filed.name("hits", "T")
    filed.file([row("T", 0, offset) for offset in range(7)], {("T", 0): 9})
    filed.finish(decoder_fingerprint(here.project.sources[SOURCE]))
    moved = tmp_path / "moved"
    assert main(["export", "--all", str(moved), "--project", str(here.folder)]) == 0
    content = (moved / "schemas.json").read_bytes()
    assert sorted(load_schemas(content)) == keys
    for broken in (content.replace(b"{}", b"[]"), None):
        (moved / "schemas.json").unlink() if broken is None else (moved / "schemas.json").write_bytes(broken)
        assert main(["import", str(moved), "--project", str(there.folder)]) == 1
        assert "schemas.json" in capsys.readouterr().err
    (moved / "schemas.json").write_bytes(content)
    assert main(["import", str(moved), "--project", str(there.folder)]) == 0
    stored = schemas_in(RegistrySettings(), there.tables).bind(there.project.sources[SOURCE])
    assert schemas_of(stored) == dict(zip(keys, [FetchedSchema("JSON", "{}"), FetchedSchema(), FetchedSchema()], strict=True))


def fetch(world: World, keys: list[SchemaKey]) -> None:
    RegistrySchemas(RegistrySettings(), world.tables, sleep=lambda _: None).fetch(keys, source="s")
