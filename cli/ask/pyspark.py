"""`tandem pyspark`: a PySpark shell, or a script, with the project's views, events tables and quarantines as DataFrames."""

import code
import contextlib
import rlcompleter
import runpy
import sys
import traceback
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession

from tandem.cli.command.call import AlreadyLogged, Call
from tandem.cli.command.options import ReleaseOption, release_of
from tandem.infra.settings import Settings
from tandem.serving.read.selection import BadSelection, parse_time
from tandem.serving.spark_frames import Frames, frames, pinned, started
from tandem.views.errors import TandemError


def run(
    call: Call,
    script: Annotated[Path | None, typer.Argument(metavar="SCRIPT", help="A Python script to run instead of a shell.")] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="Arguments of the script (sys.argv).")
    ] = None,
    *,
    publication: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Read the batch views of this publication, if it is retained.")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="TIME", help="Read the batch views of the publication that was live then (ISO 8601, UTC)."
        ),
    ] = None,
    release: ReleaseOption = None,
) -> None:
    """Open a PySpark shell, or run a script, with all published views, events and quarantine as DataFrames at one snapshot.

    * `spark` is the session, with Delta.
    * `at` is the snapshot: `at.view("sales")`, `at.events("orders")`, `at.quarantine("orders")`.
    * `snapshot()` returns a newer snapshot; `snapshot(publication=3)` or `snapshot(as_of=...)` returns a past one.
    * `snapshot(release=2)` returns a release that is not live, as if it were promoted now.
    * `spark.sql` knows them as `sales`, `orders_events` and `orders_quarantine`.

    The DataFrames are read-only.
    """
    if publication is not None and as_of is not None:
        raise BadSelection("--publication and --as-of cannot be combined")
    if release is not None and (publication, as_of) != (None, None):
        raise BadSelection("--release cannot be combined with --publication or --as-of")
    if script is not None and not script.is_file():
        raise TandemError(f"no script at {script}: the file does not exist", code="file-unusable")
    settings = call.settings()
    release_of(settings, release)
    reader = pinned(settings, publication=publication, as_of=parse_time(as_of) if as_of else None, release=release)
    session = started(settings, call.environ, debug=call.debug)
    try:
        at = frames(session, reader)
        registered = at.register()
        for name, problem in registered.items():
            if problem is not None:
                call.say(f"{name} cannot be read: {problem}")
        names = {"spark": session, "at": at, "snapshot": partial(_snapshot, settings, session)}
        if script is None:
            _shell(names, at, [name for name, problem in registered.items() if problem is None])
        else:
            _script(script, arguments or [], names)
    finally:
        session.stop()


def _snapshot(
    settings: Settings,
    session: SparkSession,
    *,
    publication: int | None = None,
    as_of: datetime | None = None,
    release: int | None = None,
) -> Frames:
    return frames(session, pinned(settings, publication=publication, as_of=as_of, release=release))


def _shell(names: dict[str, Any], at: Frames, registered: list[str]) -> None:
    with contextlib.suppress(ImportError):  # a Python may be built without readline
        import readline  # noqa: PLC0415  its import changes the terminal's settings

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    about = [
        f"Spark {names['spark'].version} with Delta; publication {at.publication}.",
        '  spark  the session      at.view("..."), at.events("..."), at.quarantine("...")  DataFrames at one snapshot',
        "  snapshot()  a newer one      snapshot(publication=N), snapshot(as_of=TIME)  one of the past",
        f"  tables of spark.sql: {', '.join(registered)}",
    ]
    code.interact("\n".join(about), local={"__name__": "__main__", **names}, exitmsg="")


def _script(script: Path, arguments: list[str], names: dict[str, Any]) -> None:
    """Run it as `python SCRIPT ARGUMENTS` would; an error that it does not catch is shown where it was raised."""
    folder = str(script.resolve().parent)
    with _replaced(sys.argv, [str(script), *arguments]), _replaced(sys.path, [folder, *sys.path]):
        try:
            runpy.run_path(str(script), init_globals=names, run_name="__main__")
        except Exception as error:
            traceback.print_exception(type(error), error, _own_frames(error, str(script)))
            raise AlreadyLogged(f"{script} failed: {error}") from error


@contextlib.contextmanager
def _replaced(values: list[str], by: list[str]) -> Any:
    before = [*values]
    values[:] = by
    try:
        yield
    finally:
        values[:] = before


def _own_frames(error: BaseException, script: str) -> Any:
    """The stack from the script on."""
    stack = error.__traceback__
    while stack is not None and stack.tb_frame.f_code.co_filename != script:
        stack = stack.tb_next
    return stack or error.__traceback__
