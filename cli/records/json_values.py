"""A file of JSON values that are not a line each: an array of values, the features of GeoJSON, or values over several lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from tandem.cli.records.bundles import BundledValue
from tandem.cli.records.lines import LONGEST
from tandem.views.errors import TandemError

_SPACE: Final = " \t\r\n"
_CHUNK: Final = 1 << 20
_MARK: Final = "\xef\xbb\xbf"
"""The byte order mark, each byte as a character."""

_PARSER: Final = json.JSONDecoder(parse_int=float)  # Python's int refuses long texts of digits
"""Reads a text of bytes as characters (Latin-1): JSON's syntax is ASCII, so that places in the text are those of the bytes."""


def begins_values(head: bytes, *, arrays: bool) -> bool:
    """Whether a file that begins with these bytes holds JSON values that are not a line each.

    With `arrays` a line may be an array that is a value of its own.
    """
    text = head.decode("latin-1").removeprefix(_MARK).lstrip(_SPACE)
    line = text.partition("\n")[0]
    if text[:1] == "[" and not (arrays and _is_value(line)):
        inner = text[1:].lstrip(_SPACE)
        return inner[:1] == "]" or _end(inner) is not None
    return text[:1] == "{" and not _is_value(line) and _end(text) is not None


def begins_collection(head: bytes) -> bool:
    """Whether a file that begins with these bytes is one FeatureCollection of GeoJSON, by its members up to its type.

    A file of which each line is a collection is none.
    """
    text = head.decode("latin-1").removeprefix(_MARK).lstrip(_SPACE)
    line, _, rest = text.partition("\n")
    if _is_value(line) and rest.strip(_SPACE):
        return False
    at = 0
    try:
        while text[at] in "{,":
            name, at = _PARSER.raw_decode(text, _after_space(text, at + 1))
            value, at = _PARSER.raw_decode(text, _after_space(text, _after_space(text, at) + 1))
            if name == "type":
                return bool(value == "FeatureCollection")
            at = _after_space(text, at)
    except (IndexError, json.JSONDecodeError, RecursionError):
        pass
    return False


def feature_values(stream: BinaryIO, file: str) -> Iterator[BundledValue]:
    """The features of a FeatureCollection, byte for byte, as `json_values` gives values; what else it holds is left out.

    Raises TandemError after the features before a place that is not JSON.
    """
    text = _Text(stream, file)
    text.skip(_MARK)
    separator = "{"
    while text.next_mark() == separator:
        text.skip(separator)
        separator = ","
        if text.next_mark() != '"':
            raise text.error("expected the name of a member")
        name = text.value().value
        if text.next_mark() != ":":
            raise text.error("expected ':' after the name of a member")
        text.skip(":")
        if text.next_mark() == "[" and name == b'"features"':
            yield from _items(text)
        else:
            text.value()
    if text.next_mark() != "}":
        raise text.error("the FeatureCollection has no end")
    text.skip("}")
    if text.next_mark() is not None:
        raise text.error("something follows the FeatureCollection")


def json_values(stream: BinaryIO, file: str) -> Iterator[BundledValue]:
    """The values of the file, byte for byte, with the number of the line in which each begins.

    The items of an array are values.

    Raises TandemError after the values before a place that is not JSON.
    """
    text = _Text(stream, file)
    text.skip(_MARK)
    in_array, after_item = False, False
    while (mark := text.next_mark()) is not None:
        if in_array and mark == "]":
            in_array = False
            text.skip("]")
        elif after_item and in_array:
            if mark != ",":
                raise text.error("expected ',' or ']' after an item")
            text.skip(",")
            after_item = False
            continue
        elif not in_array and mark == "[":
            in_array = True
            text.skip("[")
        else:
            yield text.value()
            after_item = True
            continue
        after_item = False
    if in_array:
        raise text.error("the array has no end")


def _items(text: "_Text") -> Iterator[BundledValue]:
    """The items of an array."""
    text.skip("[")
    mark = text.next_mark()
    while mark != "]":
        yield text.value()
        mark = text.next_mark()
        if mark == ",":
            text.skip(",")
            text.next_mark()
        elif mark is None:
            raise text.error("the array has no end")
        elif mark != "]":
            raise text.error("expected ',' or ']' after an item")
    text.skip("]")


@dataclass
class _Text:
    """The part of a stream that is not read yet, from `_at` on; `_line` is the number of the line there."""

    _stream: BinaryIO
    _file: str
    _rest: str = ""
    _at: int = 0
    _line: int = 1
    _ended: bool = False

    def next_mark(self) -> str | None:
        """The next character that is not a space; None at the end."""
        while True:
            while self._at < len(self._rest) and self._rest[self._at] in _SPACE:
                self._line += self._rest[self._at] == "\n"
                self._at += 1
            if self._at < len(self._rest):
                return self._rest[self._at]
            if not self._more(_CHUNK):
                return None

    def skip(self, text: str) -> None:
        """Go on after this text, if it is next."""
        if len(self._rest) - self._at < len(text):
            self._more(_CHUNK)
        if self._rest.startswith(text, self._at):
            self._at += len(text)

    def value(self) -> BundledValue:
        """The value that begins here."""
        size = _CHUNK
        while True:
            try:
                end = _PARSER.raw_decode(self._rest, self._at)[1]
                why = ""
            except json.JSONDecodeError as error:
                end, why = None, error.msg
            except RecursionError:
                raise self.error("it is nested too deep") from None
            # A number at the end of what was read may go on.
            if end is not None and (end < len(self._rest) or self._ended):
                break
            if len(self._rest) - self._at > LONGEST:
                raise self.error(f"a value has more than {LONGEST >> 20} MiB, or is not JSON: {why}")
            if not self._more(size):
                if end is not None:
                    break
                raise self.error(f"this is not a JSON value: {why}")
            size *= 2
        text = self._rest[self._at : end]
        value = BundledValue(text.encode("latin-1"), self._line, len(text) + 1)
        self._line += text.count("\n")
        self._at = end
        return value

    def error(self, why: str) -> TandemError:
        """The error at this place."""
        return TandemError(f"line {self._line} of {self._file}: {why}", code="file-unusable")

    def _more(self, size: int) -> bool:
        """Read on; whether there was more."""
        if self._ended:
            return False
        piece = self._stream.read(size)
        self._ended = not piece
        self._rest, self._at = self._rest[self._at :] + piece.decode("latin-1"), 0
        return bool(piece)


def _after_space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _is_value(line: str) -> bool:
    end = _end(line)
    return end is not None and not line[end:].strip(_SPACE)


def _end(text: str) -> int | None:
    try:
        return _PARSER.raw_decode(text)[1]
    except (json.JSONDecodeError, RecursionError):
        return None
