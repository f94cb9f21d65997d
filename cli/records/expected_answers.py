"""The file of a generator's expected answers: `{..., "views": {view: rows as query prints them, exact measures only}}`."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tandem.views.errors import TandemError

Row = dict[str, Any]


def write(file: Path, document: dict[str, Any]) -> None:
    """Write the document atomically. Raises TandemError if the file cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(document, stream, ensure_ascii=False)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(file)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    except OSError as error:
        raise TandemError(f"cannot write the expected answers to {file}: {error.strerror}", code="file-unusable") from error


def read(file: Path) -> dict[str, list[Row]]:
    """The views' rows in a file of expected answers. Raises TandemError if it is another file."""
    try:
        views: dict[str, list[Row]] = json.loads(file.read_text("utf-8"))["views"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TandemError(
            f"{file} is not a file of expected answers written by `tandem generate`: {error}", code="file-unusable"
        ) from error
    return views
