"""Kinds of files that are not text, by their first bytes, and what to do with each."""

from dataclasses import dataclass
from typing import Final

from tandem.views.errors import TandemError

_INSPECTED: Final = 4096


@dataclass(frozen=True)
class BinaryKind:
    """A kind of file: `magic` begins at byte `at`. `plain` is a magic of letters, which a text may begin with, too."""

    name: str
    magic: bytes
    remedy: str
    at: int = 0
    plain: bool = False

    def has(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes is of this kind."""
        begins = head[self.at : self.at + len(self.magic)] == self.magic
        return begins and not (self.plain and min(head[:_INSPECTED]) >= 9)  # no text has control characters below a tab


_LINES: Final = "convert it to JSON lines or CSV"
AVRO_CONTAINER: Final = BinaryKind("Avro container", b"Obj\x01", "convert it to JSON lines, as `python -m fastavro FILE` does")
KINDS: Final = (
    BinaryKind("gzip", b"\x1f\x8b", "let its name end in .gz, or send `gzip -dc FILE` through a pipe"),
    BinaryKind("Zstandard", b"\x28\xb5\x2f\xfd", "let its name end in .zst, or send `zstd -dc FILE` through a pipe"),
    BinaryKind("bzip2", b"BZh", "send `bzip2 -dc FILE` through a pipe", plain=True),
    BinaryKind("xz", b"\xfd7zXZ\0", "send `xz -dc FILE` through a pipe"),
    BinaryKind("LZ4", b"\x04\x22\x4d\x18", "send `lz4 -dc FILE` through a pipe"),
    BinaryKind("zip, as .xlsx files are", b"PK\x03\x04", f"unpack it; if it is a workbook, {_LINES}"),
    BinaryKind("7z", b"7z\xbc\xaf\x27\x1c", "unpack it"),
    BinaryKind("tar", b"ustar", "unpack it", at=257),
    BinaryKind("Parquet", b"PAR1", "save it as a file whose name ends in .parquet", plain=True),
    AVRO_CONTAINER,
    BinaryKind("ORC", b"ORC", _LINES, plain=True),
    BinaryKind("Arrow", b"ARROW1", _LINES, plain=True),
    BinaryKind("Feather", b"FEA1", _LINES, plain=True),
    BinaryKind("SQLite", b"SQLite format 3\0", _LINES),
    BinaryKind("HDF5", b"\x89HDF\r\n\x1a\n", _LINES),
    BinaryKind("old Excel", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _LINES),
    BinaryKind("PDF", b"%PDF-", _LINES, plain=True),
    BinaryKind("UTF-16 text", b"\xff\xfe", "convert it with `iconv -f UTF-16 -t UTF-8`"),
    BinaryKind("UTF-16 text", b"\xfe\xff", "convert it with `iconv -f UTF-16 -t UTF-8`"),
)


def refuse_binary(head: bytes, file: str, remedy: str = "") -> None:
    """Raise TandemError, with a remedy, if the first bytes of a file are those of a binary kind."""
    for kind in KINDS:
        if kind.has(head):
            raise TandemError(
                f"{file} is not a file of lines: by its first bytes it is {kind.name}; {kind.remedy}{remedy}",
                code="file-unusable",
            )
