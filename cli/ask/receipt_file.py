"""Receipts as files."""

from pathlib import Path

from tandem.infra.files import atomic_files
from tandem.serving.why.receipt import Receipt
from tandem.views.errors import TandemError


def write_receipt(file: Path, receipt: Receipt) -> None:
    """Write a receipt to a file, which is replaced. Raises TandemError."""
    try:
        atomic_files.replace(file.resolve(), receipt.line())
    except OSError as error:
        raise TandemError(f"cannot write {file}: {error.strerror}", code="file-unusable") from error


def load_receipt(file: Path) -> Receipt:
    """The receipt in a file. Raises TandemError, InvalidReceipt."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise TandemError(f"cannot read {file}: {error.strerror}", code="file-unusable") from error
    return Receipt.parse(content, str(file))
