"""Operations that DuckDB, Spark and PostgreSQL have under one name, but with other results: what each engine computed.

docs/expressions.md is written from this table. Tests compute each column again with the engine.
"""

from typing import Final

from tandem.views.sql.dialect_functions import FUNCTION_DIFFERENCES
from tandem.views.sql.dialect_operators import OPERATOR_DIFFERENCES

DIFFERENCES: Final = (*OPERATOR_DIFFERENCES, *FUNCTION_DIFFERENCES)
