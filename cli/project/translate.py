"""`tandem translate`: a query of Spark, Flink or PostgreSQL as a view."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tandem.cli.command.call import Call, Output
from tandem.views.errors import TandemError


class Dialect(StrEnum):
    """The dialects that are read."""

    SPARK = "spark"
    FLINK = "flink"
    POSTGRES = "postgres"


def run(
    call: Call,  # noqa: ARG001  it needs no project
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file with one query.")],
    *,
    dialect: Annotated[Dialect, typer.Option(help="Whose SQL it is.")],
    sql: Annotated[bool, typer.Option("--sql", help="Write CREATE VIEW for definitions.sql, not Python.")] = False,
) -> Output:
    """Write the view that a query means, with a comment on each operation that other engines compute otherwise; or say why not.

    It reads the windows of each dialect: TUMBLE, HOP and SESSION of Flink, also as table functions; window() and session_window()
    of Spark; date_trunc and date_bin of PostgreSQL.
    """
    from tandem.views.sql_definitions.translate import translate  # noqa: PLC0415 - sqlglot takes time to import

    try:
        query = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TandemError(f"cannot read {file}: {error}", code="file-unusable") from error
    name = "".join(letter if letter.isalnum() else "_" for letter in file.stem)
    view = translate(query, str(file), dialect.value, name if name[:1].isalpha() else f"view_{name}")
    document = {"view": view.name, "python": view.python, "sql": view.sql, "notes": list(view.notes)}
    comments = "".join(f"-- {note}\n" for note in view.notes)
    return Output(document, (comments + view.sql if sql else view.python).rstrip("\n"))
