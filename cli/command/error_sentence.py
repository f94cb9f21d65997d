"""Any error as one sentence."""

import errno
import sys
from typing import Final

from tandem.views.errors import TandemError

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""The disk or the quota is full, which any write may find."""


def foreseen(error: Exception) -> TandemError | None:
    """The error as a TandemError, if one sentence explains it; None if its stack is needed."""
    if isinstance(error, TandemError):
        return error
    if "pyspark" in sys.modules:
        from tandem.infra.spark import errors  # noqa: PLC0415 - a command without Spark must not import it to fail

        if errors.java_ended(error):
            told = errors.worded(error, "Spark failed")
            return TandemError(
                f"{told}; run the command again, with a larger `spark.driver_memory` if this is repeated",
                code=errors.JavaEnded.code,
            )
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        where = "" if error.filename else " where the project's state, its tables and temporary files are"
        return TandemError(f"{worded(error)}; free space{where}, then run the command again", code="disk-full")
    return None


def worded(error: BaseException) -> str:
    """The sentence of a TandemError; of other errors the first line, without a stack."""
    if isinstance(error, TandemError):
        return str(error)
    if "pyspark" in sys.modules:
        from tandem.infra.spark import errors  # noqa: PLC0415 - a command without Spark must not import it to fail

        if isinstance(error, Exception) and (told := errors.worded(error, "Spark failed")):
            return str(told)
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename else ""
        return f"{error.strerror[:1].lower()}{error.strerror[1:]}{place}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
