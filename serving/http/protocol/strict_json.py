"""Requests whose JSON every reader understands alike: UTF-8, no duplicate key, no NaN and no infinity (RFC 8259)."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from fastapi import Request

from tandem.serving.http.protocol.problem import Problem

_DIGITS: Final = 400
"""More digits than any number of JSON needs; Python's time for longer ones grows with the square of their length."""


class StrictRequest(Request):
    """A request that parses its body strictly where a route takes JSON."""

    def header(self, name: bytes) -> str | None:
        """The value of the first header of this lower-case name, several times as fast as `headers`."""
        return next((value.decode("latin-1") for header, value in self.scope["headers"] if header == name), None)

    async def json(self) -> Any:
        """The body's value. Raises Problem 400."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise Problem(400, f"Content-Encoding {encoding!r} is not supported; send the body without encoding")
        return parsed(await self.body())


def parsed(body: bytes) -> Any:
    """The value of a JSON text. Raises Problem 400."""
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not JSON: byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise Problem(400, "the body is not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from error


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:100]!r} occurs twice in one object; send it once")
    return found


def _float(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise ValueError(f"{text[:100]} is larger than any accepted number")
    return found


def _int(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a number of {len(text)} digits is larger than any accepted number")
    return int(text)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")
