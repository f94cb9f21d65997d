"""Values in a file of Java properties are read back as they were."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tandem.infra.files.property_text import escape


def read(text: str) -> str:
    """A value as java.util.Properties reads it: Latin-1, with escapes by UTF-16 unit."""
    units = re.sub(r"\\u([0-9a-f]{4})|\\(.)", unit, text.encode("latin-1").decode("latin-1"))
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def unit(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(match[2], match[2])


@given(st.text().filter(lambda text: not text.startswith(" ")))
def test_a_value_is_read_back(text: str) -> None:
    written = escape(text)
    assert written.isascii()
    assert "\n" not in written
    assert read(written) == text


def test_a_path_with_a_space_a_quote_and_another_letter() -> None:
    assert escape("/tmp/a b'\u00e9/x") == r"/tmp/a b'\u00e9/x"
