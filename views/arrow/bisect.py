"""Find the rows that make a computation over many rows fail, by bisection."""

from collections.abc import Callable, Iterator

import pyarrow as pa


def halved(
    made: Callable[[pa.Table], pa.Table], rows: pa.Table, fails: Callable[[BaseException], bool]
) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """The rows in pieces, each with what is made of it; None beside a single row for which that fails.

    Mostly nothing fails, and there is one piece; else some 2 log n calls find each row that does. An exception that
    `fails` does not call a failure of the rows is raised, and so is what fails without any row: no row is the cause of that.
    """
    try:
        result = made(rows)
    except BaseException as error:
        if not fails(error):
            raise
        half = rows.num_rows // 2
        if not half:
            made(rows.slice(0, 0))  # For each such row: one may leave behind a computation that fails for all others.
            yield rows, None
            return
        yield from halved(made, rows.slice(0, half), fails)
        yield from halved(made, rows.slice(half), fails)
    else:
        yield rows, result
