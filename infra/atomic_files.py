"""Files that are replaced in one step: a reader sees the old content or the new, whatever ends the writer."""

from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Put the content in the place of a file, by way of `NAME.new` beside it; one writer at a time. The folder must exist. Raises
    OSError. A crash of the machine may lose both: nothing is forced to the disk.
    """
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
