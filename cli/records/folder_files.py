"""The files of a folder that a command names."""

from pathlib import Path
from typing import Final

from tandem.views.errors import TandemError

_DELTA: Final = "_delta_log"


def folder_files(path: Path) -> list[Path]:
    """All files below the folder by name, without those that Spark and shells hide: a name begins with a dot or underscore.

    Raises TandemError if the folder has no file, or is a Delta table, some of whose files may not be current.
    """
    if (path / _DELTA).is_dir():
        raise TandemError(
            f"{path} is a Delta table: some of its files may not be current; export its rows to a folder of Parquet files first",
            code="file-unusable",
        )
    files = visible_files(path)
    if not files:
        raise TandemError(f"folder {path} has no files, apart from those whose names begin with . or _", code="file-unusable")
    return files


def visible_files(path: Path) -> list[Path]:
    """All files below the folder by name, without those that Spark and shells hide."""
    return [file for file in sorted(path.rglob("*")) if file.is_file() and not hides_name(str(file.relative_to(path)))]


def hides_name(name: str) -> bool:
    """Whether the name of a file, or of a folder that it is in, begins with a dot or underscore."""
    return any(part[:1] in ("", ".", "_") for part in name.split("/"))


def partition_folders(root: Path, files: list[Path]) -> list[str]:
    """Names of folders that hold a column's value, such as `day=2026-11-01`: the rows of their files lack it."""
    return sorted({part for file in files for part in file.relative_to(root).parts[:-1] if "=" in part.strip("=")})
