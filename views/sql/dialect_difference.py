"""An operation that DuckDB, Spark and PostgreSQL have under one name, but with other results."""

from dataclasses import dataclass
from typing import Final

SPARK: Final = "4.2"
POSTGRES: Final = "15.18"

ERROR: Final = "error"
"""The result of an expression that fails."""
NONE: Final = "none"
"""The result of a function or operator that the engine does not have."""


@dataclass(frozen=True)
class DialectExample:
    """An expression, and the text of what each engine computes; `in_spark` and `in_postgres` are their ways to write it."""

    sql: str
    here: str
    spark: str
    postgres: str
    in_spark: str = ""
    in_postgres: str = ""


@dataclass(frozen=True)
class DialectDifference:
    """Operations, the meaning that they have here, and examples of which one at least differs elsewhere."""

    names: tuple[str, ...]
    meaning: str
    examples: tuple[DialectExample, ...]
