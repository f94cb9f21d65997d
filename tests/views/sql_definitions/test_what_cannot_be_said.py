"""What SQL cannot say here is refused in one sentence, with a caret under it."""

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.project.project import load
from tests.views.sql_definitions.test_the_page import project

SOURCE = """\
CREATE SOURCE orders (
    id TEXT NOT NULL, at TIMESTAMP NOT NULL, city TEXT, amount DECIMAL(38, 2),
    PRIMARY KEY (id), WATERMARK FOR at
);
"""
OF_VIEWS = {
    "SELECT count(*) AS n FROM «order": "no source 'order'; sources: orders",
    "SELECT count(*) AS n FROM orders «HAVING n > 1": "HAVING chooses among answers",
    "SELECT count(*) AS n FROM orders «ORDER BY n": "a view has no order",
    "SELECT «DISTINCT city FROM orders": "each combination of keys has one row",
    "SELECT «city, count(*) AS n FROM orders": "city is neither a measure nor in GROUP BY",
    "SELECT city, «sum(amuont) AS s FROM orders GROUP BY city": "names a field 'amuont'",
    "SELECT «upper(city, 1) AS k, count(*) AS n FROM orders GROUP BY k": "does not fit its event",
    "SELECT city, «count(DISTINCT city) AS n FROM orders GROUP BY city": "write approx_count_distinct(city)",
    "SELECT city, «count(*) FROM orders GROUP BY city": "the column has no name",
    "SELECT sum(«DISTINCT amount) AS s FROM orders": "DISTINCT is not possible in sum",
    "SELECT first_k(«city ORDER BY at, 2) AS f FROM orders": "ORDER is not possible in first_k",
    "SELECT count(*) AS n FROM orders GROUP BY TUMBLE(«id, INTERVAL '1 hour')": "id is not the event time of source 'orders'",
    "SELECT count(*) AS n FROM orders GROUP BY TUMBLE(at, «INTERVAL '1 month')": "month has no fixed length",
    "SELECT count(*) AS n FROM orders GROUP BY «TUMBLE(at)": "TUMBLE(time, INTERVAL '1 hour')",
    "SELECT count(*) AS n FROM orders GROUP BY «CUMULATE(at, INTERVAL '1 hour', INTERVAL '1 day')": "--one",
    "SELECT count(*) AS n FROM orders GROUP BY «date_trunc('day', at, 'Europe/Berln')": "no time zone 'Europe/Berln'",
    "SELECT count(*) AS n FROM orders GROUP BY «country": "GROUP BY has country, which SELECT lacks",
    "SELECT count(*) AS n FROM orders GROUP BY «n": "n is a measure",
    "SELECT count(*) AS n FROM orders«, others": "a view reads one source",
    "SELECT count(*) AS n FROM orders «o": "a view reads one source",
    "SELECT count(*) AS n FROM orders WHERE «citi = 'x'": "names a field 'citi'",
    "SELECT count(*) AS n FROM orders WHERE city = «'x": "is not closed",
    "SELECT count«(* AS n FROM orders": "has no partner",
    "SELECT city, «median(amount) AS m FROM orders GROUP BY city": "if median should be a measure",
    "SELECT approx_quantiles(amount, [0.5], «fraction => 1) AS q FROM orders": "approx_quantiles(expression, fractions)",
    "SELECT «approx_quantiles(amount, [0.5, 2]) AS q FROM orders": "numbers from 0 to 1",
    "SELECT sum(amount) / «count(*) AS m, sum(amount) AS s FROM orders": "count(*) has no name here",
    "SELECT city, «upper(city) AS CITY, count(*) AS n FROM orders GROUP BY 1, 2": "two columns are called CITY",
    "SELECT matches('a+ «{3,2} b', define => {'a': 'amount > 1'}) AS m FROM orders": "'{3,2}' follows a quantifier",
    "SELECT matches('a«{3,2} b', define => {'a': 'amount > 1'}) AS m FROM orders": "the largest number of '{3,2}' is 2",
    "SELECT «matches('a b', define => {'c': 'amount > 1'}) AS m FROM orders": "define has the symbol 'c'",
    "SELECT matches('a b', define => {«'a'}) AS m FROM orders": "a member of a struct is a name, a colon and a constant",
    "SELECT matches('a', define => {a: 'amount > 1', «a: 'amount < 1'}) AS m FROM orders": "'a' is given twice",
    "SELECT matches(«a, define => {'a': 'amount > 1'}) AS m FROM orders": "a is not a constant",
    "SELECT «matches('a') AS m FROM orders": "matches has the form matches(pattern, define => ..., limit => 1000, by => None)",
    "SELECT «matches('a', define => {a: 'amount > LAST(amount, 2)'}) AS m FROM orders": "LAST has the form LAST(a.x) or LAST(x)",
    "SELECT «matches('a', define => {a: 'city'}) AS m FROM orders": "'city' is of type VARCHAR; a condition is BOOLEAN",
}
OF_SOURCES = {
    "CREATE SOURCE s «(a INT)": "source s has no event time",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, PRIMARY KEY (at) «ENFORCED, WATERMARK FOR at)": "ENFORCED does not belong to",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, PRIMARY KEY (at) «NOT ENFORCED x, WATERMARK FOR at)": "x does not belong to a",
    "CREATE SOURCE s (a «MONEY, WATERMARK FOR a)": "type MONEY is unknown",
    "CREATE SOURCE «s (a INT NOT NULL, WATERMARK FOR a)": "is not a datetime that is always present",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, x «DECIMAL, WATERMARK FOR at)": "DECIMAL(38, 2)",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, x TIME «WITH TIME ZONE, WATERMARK FOR at)": "a time of day has no zone: TIME",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, x MAP<«INT, TEXT>, WATERMARK FOR at)": "the keys of a map are texts",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, x «ENUM(), WATERMARK FOR at)": "ENUM declares what it holds",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, «At TEXT, WATERMARK FOR at)": "source s has two columns At",
    'CREATE SOURCE s (at TIMESTAMP NOT NULL, «"US Gross" TEXT, WATERMARK FOR at)': "OPTIONS (name = 'US Gross')",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, WATERMARK FOR at) WITH (format = «'xml')": "unknown format 'xml'",
    "CREATE SOURCE s (at TIMESTAMP NOT NULL, WATERMARK FOR at) WITH (prepare = «'f')": "definitions.sql can have views of it",
}


def refusal(folder: object, sql: str) -> tuple[str, str, int]:
    """The message, the line that it shows, and where the caret is in it."""
    with pytest.raises(DefinitionError) as error:
        load(project(folder, definitions__sql=sql))  # type: ignore[arg-type]
    message, shown, caret = str(error.value).split("\n")
    assert message.startswith("definitions.sql:")
    return message, shown[4:], len(caret) - 5


@pytest.mark.parametrize(("marked", "says"), OF_VIEWS.items())
def test_a_view_that_cannot_be_is_shown(tmp_path: object, marked: str, says: str) -> None:
    text = f"CREATE VIEW v AS {marked}"
    message, shown, caret = refusal(tmp_path, SOURCE + text.replace("«", ""))
    assert says in message
    assert (shown, caret) == (text.replace("«", "").rstrip(), text.index("«"))


@pytest.mark.parametrize(("marked", "says"), OF_SOURCES.items())
def test_a_source_that_cannot_be_is_shown(tmp_path: object, marked: str, says: str) -> None:
    message, shown, caret = refusal(tmp_path, marked.replace("«", ""))
    assert says in message
    assert (shown, caret) == (marked.replace("«", ""), marked.index("«"))


@pytest.mark.parametrize("sql", ["", "-- nothing yet", "SELECT 1", "CREATE TABLE s (a INT)", "CREATE VIEW", "COMMENT ON VIEW x"])
def test_other_statements_are_refused(tmp_path: object, sql: str) -> None:
    assert refusal(tmp_path, sql)
