"""CREATE ROLLUP means what rollup(...) means, and what it cannot say is refused at its place."""

import re
from pathlib import Path

import pytest

from tandem import rollup
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project.project import load
from tests.documented import DOCS, File, steps

HITS = """CREATE SOURCE hits (
    at TIMESTAMP NOT NULL, country TEXT NOT NULL, page TEXT NOT NULL, bytes BIGINT NOT NULL, WATERMARK FOR at
) WITH (topic = 'requests', format = 'json');
CREATE VIEW hourly AS
SELECT country, page, count(*) AS n, sum(bytes) AS bytes, bytes / n AS size
FROM hits GROUP BY country, page, TUMBLE(at, INTERVAL '1 hour');
"""
(ON_THE_PAGE,) = re.findall(r"^```sql\n(.*?)^```$", (DOCS / "rollups.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_statements_of_the_page_mean_its_python(tmp_path: Path) -> None:
    """Beside their parent in definitions.py, as a release stores them, and with all of it in definitions.sql."""
    (python,) = (step.text for step in steps("rollups.md") if isinstance(step, File))
    for name, definitions in (("python", python), ("both", python[: python.index("daily = ")]), ("sql", None)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tandem.toml").touch()
        if definitions is not None:
            (folder / "definitions.py").write_text(definitions)
        if name != "python":
            (folder / "definitions.sql").write_text(ON_THE_PAGE if definitions else HITS + ON_THE_PAGE)
    meant = {name: fingerprint(view) for name, view in load(tmp_path / "python").every_view.items()}
    assert {name: fingerprint(view) for name, view in load(tmp_path / "both").every_view.items()} == meant
    sql = load(tmp_path / "sql")
    assert {name: (view.window, [*view.keys], [*view.measures]) for name, view in sql.rollups.items()} == {
        name: (view.window, [*view.keys], [*view.measures]) for name, view in load(tmp_path / "python").rollups.items()
    }


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("SELECT country, n FROM hits", "no view 'hits' before it; views: hourly"),
        ("SELECT country, n FROM later", "no view 'later' before it; views: hourly"),
        ("SELECT sum(n) AS n FROM hourly", "a rollup selects measures of its parent by their names, and keys that GROUP BY has"),
        ("SELECT n AS m FROM hourly", "a rollup selects measures of its parent by their names, and keys that GROUP BY has"),
        ("SELECT upper(page), n FROM hourly", "the column has no name: upper(page) AS name"),
        (
            "SELECT bytes + 1 AS more, n FROM hourly GROUP BY more",
            "names a field 'bytes' that a group of view 'hourly' ",
        ),
        ("SELECT n FROM hourly WHERE n > 1", "a rollup unites all states of its parent"),
        ("SELECT n FROM hourly GROUP BY country", "GROUP BY has country, which SELECT lacks; columns of SELECT: n"),
        ("SELECT country FROM hourly GROUP BY country", "rollup wrong has no measures"),
        ("SELECT n FROM hourly GROUP BY TUMBLE(at, INTERVAL '1 day')", "the window of a rollup is of the parent's window_start"),
        ("SELECT n FROM hourly GROUP BY TUMBLE(window_start, INTERVAL '90 minutes')", "which is not a multiple of 1:00:00"),
        ("SELECT n", "a rollup is of one view by its name"),
        ("SELECT n, N FROM hourly", "two columns are called N"),
        ("SELECT country, n FROM hourly", "the parent has no measure 'country', which is a key of it; measures: n, bytes, size"),
        ("SELECT n FROM hourly GROUP BY window_start, TUMBLE(window_start, INTERVAL '1 day')", "a rollup has one window"),
        ("SELECT n FROM hourly GROUP BY TUMBLE(window_start, INTERVAL '1 day'), WINDOW_START", "a rollup has one window"),
    ],
)
def test_what_a_rollup_cannot_say_is_refused_at_its_place(tmp_path: Path, statement: str, sentence: str) -> None:
    (tmp_path / "tandem.toml").touch()
    after = "CREATE ROLLUP later AS SELECT n FROM hourly;"
    (tmp_path / "definitions.sql").write_text(f"{HITS}CREATE ROLLUP wrong AS {statement};\n{after}")
    with pytest.raises(DefinitionError) as error:
        load(tmp_path)
    assert sentence in str(error.value)
    assert str(error.value).startswith("definitions.sql:")


@pytest.mark.parametrize(
    ("parent", "sentence"),
    [
        ("visits", "rollup wrong: no view 'visits' before it; views: none"),
        ("latest", "rollup wrong: no view 'latest' before it; views: none"),
        ("hour", "no source or view 'hour' in definitions.sql or definitions.py; those of definitions.py: hourly, hits"),
    ],
)
def test_a_parent_that_is_no_view_is_refused_beside_definitions_in_python(tmp_path: Path, parent: str, sentence: str) -> None:
    (python,) = (step.text for step in steps("rollups.md") if isinstance(step, File))
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(python[: python.index("daily = ")])
    source = HITS[: HITS.index("CREATE VIEW")].replace("SOURCE hits", "SOURCE visits")
    table = "CREATE TABLE latest (PRIMARY KEY (page)) AS SELECT * FROM visits;"
    (tmp_path / "definitions.sql").write_text(f"{source}{table}\nCREATE ROLLUP wrong AS SELECT n FROM {parent};\n")
    with pytest.raises(DefinitionError) as error:
        load(tmp_path)
    assert sentence in str(error.value)


def test_names_in_group_by_may_be_quoted_and_in_capitals_as_those_of_a_view(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    written = 'SELECT "country", page, n FROM hourly GROUP BY "country", PAGE, Window_Start'
    (tmp_path / "definitions.sql").write_text(f"{HITS}CREATE ROLLUP same AS {written};")
    same, hourly = load(tmp_path).rollups["same"], load(tmp_path).views["hourly"]
    assert ([*same.keys], [*same.measures], same.window) == (["country", "page"], ["n"], hourly.window)


def test_keys_may_be_expressions_over_those_of_the_parent(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    written = "SELECT upper(page) AS page, country, n FROM hourly GROUP BY country, page, window_start"
    (tmp_path / "definitions.sql").write_text(f"{HITS}CREATE ROLLUP loud AS {written};")
    loaded = load(tmp_path)
    loud = rollup(loaded.views["hourly"], keys={"country": "country", "page": "upper(page)"}, measures=("n",), name="loud")
    assert fingerprint(loaded.rollups["loud"]) == fingerprint(loud)


def test_a_comment_describes_a_rollup_and_a_view_of_a_view_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    sql = tmp_path / "definitions.sql"
    sql.write_text(f"{HITS}{ON_THE_PAGE}COMMENT ON VIEW daily IS 'hits by day';")
    assert load(tmp_path).rollups["daily"].doc == "hits by day"
    sql.write_text(f"{HITS}{ON_THE_PAGE}COMMENT ON COLUMN daily.n IS 'hits';")
    with pytest.raises(DefinitionError, match="the columns of rollup daily have the comments of its parent's"):
        load(tmp_path)
    sql.write_text(f"{HITS}CREATE VIEW daily AS SELECT count(*) AS n FROM hourly;")
    with pytest.raises(DefinitionError, match="view daily: hourly is a view; write CREATE ROLLUP daily to unite its states"):
        load(tmp_path)
