"""docs/expressions.md: how expressions differ from other SQL. `python -m tandem.cli.dev.expressions_page` prints it."""

import sys
from collections.abc import Iterator
from typing import Final

from tandem.views.sql.dialect_difference import POSTGRES, SPARK, DialectExample
from tandem.views.sql.dialects import DIFFERENCES
from tandem.views.sql.spark_names import SPARK_AGGREGATES, SPARK_NAMES

_HEAD: Final = f"""\
# Expressions and other SQL

Written by `python -m tandem.cli.dev.expressions_page > docs/expressions.md` from the tables in `views/sql/`.

Expressions of keys, filters, measures and windows are DuckDB SQL. Some functions and operators have another meaning in Spark or
in PostgreSQL, though the name is the same. `tandem check` prints a hint for each that a project uses, with its places;
`--json` has them under `hints`. A hint does not fail the check: the expression means what the column *here* says, in both layers.

The engines computed the columns: DuckDB here, Spark {SPARK} in its default ANSI mode, PostgreSQL {POSTGRES}. Tests compute them
again, the one of PostgreSQL where a server is installed.

* *error*: the expression fails. Here a view then rejects the event and counts it, as it does where a value is infinite (`inf`) or
  not a number (`nan`).
* *none*: the engine has no such function or operator.

## The same name, another result
"""


def page() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    yield "| operation | expression | here | Spark | PostgreSQL |"
    yield "| --- | --- | --- | --- | --- |"
    for difference in DIFFERENCES:
        names = ", ".join(_code(name) for name in difference.names)
        for number, example in enumerate(difference.examples):
            yield f"| {'' if number else names} | {_code(example.sql)} | {' | '.join(_results(example))} |"
        yield f"| | {_cell(difference.meaning)} | | | |"
    yield "\n## Spark's names\n"
    yield "DuckDB does not have these functions of Spark. An error that names one says how to write it here.\n"
    yield "| Spark | here |\n| --- | --- |"
    for theirs, ours in SPARK_NAMES.values():
        yield f"| {_code(theirs)} | {_code(ours)} |"
    yield "\nAggregates are measures, not parts of expressions:\n"
    yield "| Spark | measure |\n| --- | --- |"
    for name, measure in SPARK_AGGREGATES.items():
        yield f"| {_code(name)} | {_code(measure)} |"


def _results(example: DialectExample) -> Iterator[str]:
    yield _value(example.here)
    for value, sql in ((example.spark, example.in_spark), (example.postgres, example.in_postgres)):
        yield f"{_value(value)}, of {_code(sql)}" if sql else _value(value)


def _value(text: str) -> str:
    return "the empty text" if not text else text if text in ("error", "none") else _code(text)


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{_cell(text)}{fence}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
