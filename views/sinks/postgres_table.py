"""A PostgreSQL table as the target of a sink."""

import re
from dataclasses import dataclass
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.sinks.sink import SinkTarget

_TABLE: Final = re.compile(r"(?:[^\W\d]\w{0,62}\.)?[^\W\d]\w{0,62}", re.ASCII)
_VARIABLE: Final = re.compile(r"\$[^\W\d]\w*", re.ASCII)
_PASSWORD: Final = re.compile(r"://[^/?#@]*:[^/?#@]*@|\b(?:ssl)?password\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class PostgresTable(SinkTarget):
    """The PostgreSQL table of a sink, by its name and its connection."""

    table: str
    dsn: str

    def __str__(self) -> str:
        return f"postgres_table({self.table!r}, dsn={self.dsn!r})"


def postgres_table(table: str, *, dsn: str) -> PostgresTable:
    """A table of PostgreSQL 15 or newer as the target of a sink; the sink creates it.

    * `table`: its name, as `"sales"` or `"marts.sales"`; upper case is kept.
    * `dsn`: the connection. `"$NAME"` stands for a variable of the environment that has it whole. Otherwise it is libpq's form
      without a password, such as `"host=db dbname=sales user=tandem"`; libpq has PGPASSWORD, PGPASSFILE and `~/.pgpass` for that.
    """
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        raise DefinitionError(f"postgres_table({table!r}): expected a name such as 'sales' or 'marts.sales'")
    if not isinstance(dsn, str) or not dsn.strip() or (dsn.startswith("$") and not _VARIABLE.fullmatch(dsn)):
        raise DefinitionError(
            f"postgres_table({table!r}): dsn is {dsn!r}; expected '$NAME' of a variable, or 'host=db dbname=sales'"
        )
    if _PASSWORD.search(dsn):
        raise DefinitionError(f"postgres_table({table!r}): dsn has a password; give the connection as a variable: dsn='$NAME'")
    return PostgresTable(table, dsn)
