"""A definitions.sql alone is a project, and beside a definitions.py a part of one; releases need no compiler."""

import subprocess
import sys
from pathlib import Path

import pytest

from tandem import csv
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.project.project import load, load_files
from tests.stack import PYTHONPATH
from tests.views.project.test_project import DEFINITIONS
from tests.views.sql_definitions.test_the_page import project

REQUESTS = """\
CREATE SOURCE requests (
    id TEXT NOT NULL, at TIMESTAMP NOT NULL, path TEXT NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (id), WATERMARK FOR at
);
"""
TRAFFIC = """\
CREATE VIEW page_traffic AS
SELECT path AS page, count(*) AS hits, sum(size) AS bytes FROM requests GROUP BY page, TUMBLE(at, INTERVAL '1 minute');
"""
BY_HOUR = "CREATE VIEW by_hour AS SELECT count(*) AS hits FROM requests GROUP BY TUMBLE(at, INTERVAL '1 hour');"
PYTHON_SOURCE = DEFINITIONS.partition("page_traffic = View(")[0]


def test_a_project_in_sql_is_the_same_project(tmp_path: Path) -> None:
    sql = load(project(tmp_path / "sql", definitions__sql=REQUESTS + TRAFFIC))
    python = load(project(tmp_path / "python", definitions__py=DEFINITIONS))
    assert decoder_fingerprint(sql.sources["requests"]) == decoder_fingerprint(python.sources["requests"])
    assert fingerprint(sql.views["page_traffic"]) == fingerprint(python.views["page_traffic"])


def test_a_key_may_say_as_in_flink_that_it_is_not_enforced(tmp_path: Path) -> None:
    flink = REQUESTS.replace("PRIMARY KEY (id)", "PRIMARY KEY (id) NOT ENFORCED")
    sources = [
        load(project(tmp_path / str(n), definitions__sql=text + TRAFFIC)).sources for n, text in enumerate((flink, REQUESTS))
    ]
    assert decoder_fingerprint(sources[0]["requests"]) == decoder_fingerprint(sources[1]["requests"])


def test_an_option_of_several_parts_is_given_part_by_part(tmp_path: Path) -> None:
    columns = REQUESTS.rpartition(")")[0]
    options = "csv.columns = ('id', 'day', 'clock', 'path', 'size'), csv.join.at = ('day', 'clock')"
    sql = load(project(tmp_path / "sql", definitions__sql=f"{columns}) WITH (format = 'csv', {options});\n{TRAFFIC}"))
    decoder = csv(columns=("id", "day", "clock", "path", "size"), join={"at": ("day", "clock")})
    assert sql.sources["requests"].decoder == decoder
    with pytest.raises(DefinitionError, match="'join' is given as one value and by parts"):
        load(
            project(
                tmp_path / "wrong", definitions__sql=f"{columns}) WITH (format = 'csv', csv.join = 'at', {options});\n{TRAFFIC}"
            )
        )


def test_what_must_hold_is_an_option_for_each_condition(tmp_path: Path) -> None:
    options = "'bytes.unit' = 'B', 'expect page <> ''/x''' = 'warn', 'expect rows > 0' = 'stop'"
    traffic = TRAFFIC.replace("page_traffic AS", f"page_traffic WITH ({options}) AS")
    sql = load(project(tmp_path / "sql", definitions__sql=REQUESTS + traffic))
    assert sql.views["page_traffic"].expect == {"page <> '/x'": "warn", "rows > 0": "stop"}
    wrong = traffic.replace("'stop'", "'fail'")
    with pytest.raises(DefinitionError, match=r"expect 'rows > 0': 'fail' is not 'stop' or 'warn'"):
        load(project(tmp_path / "wrong", definitions__sql=REQUESTS + wrong))


@pytest.mark.parametrize("ends", ["", "\nSOURCES = (requests,)\nVIEWS = ()\n"])
def test_views_in_sql_are_of_sources_in_python(tmp_path: Path, ends: str) -> None:
    both = load(project(tmp_path, definitions__py=PYTHON_SOURCE + ends, definitions__sql=TRAFFIC))
    python = load(project(tmp_path / "python", definitions__py=DEFINITIONS))
    assert fingerprint(both.views["page_traffic"]) == fingerprint(python.views["page_traffic"])
    assert list(both.sources) == ["requests"]


def test_views_in_python_are_of_sources_in_sql(tmp_path: Path) -> None:
    imports = "from tandem import View, count, total, tumbling\n\nfrom definitions_sql import requests\n\n"
    view = DEFINITIONS.partition("\n\npage_traffic")[2].partition("\n\nSOURCES")[0]
    both = load(project(tmp_path, definitions__py=f"{imports}page_traffic{view}\n", definitions__sql=REQUESTS + BY_HOUR))
    python = load(project(tmp_path / "python", definitions__py=DEFINITIONS))
    assert list(both.views) == ["page_traffic", "by_hour"]
    assert fingerprint(both.views["page_traffic"]) == fingerprint(python.views["page_traffic"])


def test_sinks_and_alerts_in_python_are_of_views_in_sql(tmp_path: Path) -> None:
    outputs = """from definitions_sql import page_traffic
from tandem import Alert, Sink, delta_table

lake = Sink(page_traffic, to=delta_table("lake"), where="hits > 1")
busy = Alert(page_traffic, when="hits > 100")
"""
    both = load(project(tmp_path, definitions__py=outputs, definitions__sql=REQUESTS + TRAFFIC))
    for loaded in (both, load_files(both.files)):  # as a release stores it
        (sink,), (alert,) = loaded.sinks.values(), loaded.alerts.values()
        assert (sink.name, alert.name) == ("lake", "busy")
        assert fingerprint(sink.view) == fingerprint(alert.view) == fingerprint(loaded.views["page_traffic"])


@pytest.mark.parametrize(
    ("python", "sql", "says"),
    [
        (
            PYTHON_SOURCE,
            TRAFFIC.replace("requests", "request"),
            "no source or view 'request' in definitions.sql or definitions.py",
        ),
        (f"from definitions_sql import page_traffic\n{PYTHON_SOURCE}", TRAFFIC, "imports definitions_sql before it defines"),
        (DEFINITIONS, TRAFFIC, "'page_traffic'"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path: Path, python: str, sql: str, says: str) -> None:
    with pytest.raises(DefinitionError) as error:
        load(project(tmp_path, definitions__py=python, definitions__sql=sql))
    assert says in str(error.value)


def test_a_release_needs_no_compiler(tmp_path: Path) -> None:
    """What is stored is the compiled module: a process that loads it never imports sqlglot, and the meaning is the same."""
    sql = load(project(tmp_path, definitions__sql=REQUESTS + TRAFFIC))
    stored = load_files(sql.files)
    assert sorted(sql.files) == ["definitions.py", "definitions.sql", "tandem.toml"]
    assert fingerprint(stored.views["page_traffic"]) == fingerprint(sql.views["page_traffic"])
    program = (
        f"import sys; from tandem.views.project.project import load_files; load_files({dict(sql.files)!r}); "
        "assert 'sqlglot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": PYTHONPATH}, timeout=300)
    # The files of a release, written to a folder, are the project again.
    again = tmp_path / "again"
    again.mkdir()
    for name, content in sql.files.items():
        (again / name).write_bytes(content)
    assert load(again).files == sql.files
