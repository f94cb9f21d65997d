"""CREATE TABLE means what Table(...) means, and what it cannot say is refused at its place."""

import re
from pathlib import Path

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project.project import load
from tests.documented import DOCS

PRICES = """CREATE SOURCE prices (
    sku TEXT NOT NULL, since TIMESTAMP NOT NULL, price DECIMAL(38, 2) NOT NULL, deleted BOOLEAN NOT NULL, WATERMARK FOR since
) WITH (format = 'json');
"""
IN_PYTHON = """
from definitions_sql import prices
from tandem import Table

everything = Table(prices, key={"sku": "sku"}, gone="deleted")
some = Table(prices, key={"sku": "upper(sku)", "odd": "price % 2 = 1"}, order="log", where="price > 0", doc="dear", \
fields={"cents": "price * 100"})
"""
ON_THE_PAGE, OF_ROWS = re.findall(r"^```sql\n(.*?)^```$", (DOCS / "tables.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
SOME = """CREATE TABLE lots (PRIMARY KEY (sku, odd)) WITH (order = 'log') AS
SELECT upper(sku) AS sku, price % 2 = 1 AS odd, price * 100 AS cents FROM prices WHERE price > 0;
COMMENT ON VIEW lots IS 'dear';
COMMENT ON COLUMN lots.cents IS 'in cents';
"""


def test_statements_mean_their_python(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.sql").write_text(PRICES + ON_THE_PAGE + SOME)
    project = load(tmp_path)
    assert [*project.views] == ["price_of_versions", "lots_versions"]
    assert (project.rollups["lots"].doc, project.rollups["lots"].docs) == ("dear", {"cents": "in cents"})
    (tmp_path / "definitions.sql").write_text(PRICES)
    (tmp_path / "definitions.py").write_text(IN_PYTHON)
    python = load(tmp_path)
    for name, same in (("price_of", "everything"), ("lots", "some")):
        assert fingerprint(project.every_view[name]) == fingerprint(python.every_view[same])


def test_a_view_of_a_table_counts_its_rows(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").touch()
    select = "CREATE VIEW worth AS SELECT price > 5 AS dear, count(*) AS n, sum(price) AS worth FROM price_of GROUP BY dear;"
    (tmp_path / "definitions.sql").write_text(PRICES + ON_THE_PAGE + select + OF_ROWS)
    project = load(tmp_path)
    (tmp_path / "definitions.sql").write_text(PRICES)
    (tmp_path / "definitions.py").write_text(
        IN_PYTHON.replace("import Table", "import Table, View, count, total")
        + 'rows = View(source=everything.rows(), keys={"dear": "price > 5"}, measures={"n": count(), "worth": total("price")})\n'
    )
    assert fingerprint(project.every_view["worth"]) == fingerprint(load(tmp_path).every_view["rows"])
    assert [*project.every_view] == ["price_of_versions", "worth", "listed", "price_of"]


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("AS SELECT * FROM prices", "CREATE TABLE wrong is followed by its key: CREATE TABLE price_of (PRIMARY KEY (sku))"),
        ("(PRIMARY KEY (sku), price TEXT) AS SELECT * FROM prices", "a table's brackets have its PRIMARY KEY alone"),
        ("(PRIMARY KEY (sku)) SELECT * FROM prices", "CREATE TABLE wrong ends with AS SELECT ..."),
        ("(PRIMARY KEY (sku)) AS SELECT price FROM prices", "PRIMARY KEY names columns of SELECT; sku is not one of price"),
        ("(PRIMARY KEY (sku, sku)) AS SELECT * FROM prices", "PRIMARY KEY names sku twice"),
        ("(PRIMARY KEY (sku)) AS SELECT sku FROM prices", "table wrong has no columns besides its key; select some, or *"),
        ("(PRIMARY KEY (sku)) AS SELECT sku, price, PRICE FROM prices", "two columns are called PRICE"),
        ("(PRIMARY KEY (sku)) AS SELECT sku, price + 1 FROM prices", "the column has no name: price + 1 AS name"),
        ("(PRIMARY KEY (sku)) AS SELECT * FROM price", "no source 'price'; sources: prices"),
        ("(PRIMARY KEY (sku)) AS SELECT * FROM dear", "table wrong: dear is a view; a table is of a source"),
        ("(PRIMARY KEY (sku)) AS SELECT * FROM prices GROUP BY sku", "a table has a row for each value of its PRIMARY KEY"),
        ("(PRIMARY KEY (sku)) WITH (gon = 'deleted') AS SELECT * FROM prices", "unknown option 'gon' of a table; options: gone"),
        ("(PRIMARY KEY (sku)) WITH (gone = 'price') AS SELECT * FROM prices", "gone: 'price' is of type DECIMAL"),
        ("(PRIMARY KEY (sku)) WITH (order = 'new') AS SELECT * FROM prices", "order='new'; expected 'time' or 'log'"),
        ("(PRIMARY KEY (sku)) AS SELECT sku, prise AS price FROM prices", "'prise' names a field 'prise' that"),
    ],
)
def test_what_a_table_cannot_say_is_refused_at_its_place(tmp_path: Path, statement: str, sentence: str) -> None:
    (tmp_path / "tandem.toml").touch()
    view = "CREATE VIEW dear AS SELECT count(*) AS n FROM prices WHERE price > 9;\n"
    (tmp_path / "definitions.sql").write_text(f"{PRICES}{view}CREATE TABLE wrong {statement};\n")
    with pytest.raises(DefinitionError) as error:
        load(tmp_path)
    assert sentence in str(error.value)
    assert re.match(r"definitions\.sql:5:\d+: ", str(error.value))
