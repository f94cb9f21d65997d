"""Markers: requests that are the only ones of their keys, so that an answer shows whether it counts one.

A marker has a page, section, route, user and status that no other event has. A view with keys counts it if and only if the
answer has a row with its key. The view without keys cannot tell; it is kept fresh by the same micro-batch or not at all.
"""

import re
from datetime import datetime, timedelta

from examples.truth import EPOCH
from examples.web.generator import Request

PREFIX = "marker-"
_NAME = re.compile(f"{PREFIX}([a-z]+)")


def marker_name(number: int) -> str:
    """The name in letters only, because the route view replaces digits."""
    letters = ""
    while True:
        letters = chr(ord("a") + number % 26) + letters
        number //= 26
        if not number:
            return PREFIX + letters


def marker_of(key: object) -> int | None:
    """The marker that a view's key belongs to; None if it is an ordinary event's."""
    if isinstance(key, int):
        return -key - 1 if key < 0 else None
    match = _NAME.search(key) if isinstance(key, str) else None
    if match is None:
        return None
    number = 0
    for letter in match[1]:
        number = number * 26 + ord(letter) - ord("a")
    return number


def keys_of(number: int) -> dict[str, str | int]:
    """View to the marker's key in it."""
    name = marker_name(number)
    return {
        "page_traffic": f"/{name}/",
        "section_visitors": name,
        "route_latency": f"/{name}/",
        "status_counts": -number - 1,
        "user_bytes": name,
    }


def marker(number: int, at: datetime) -> tuple[bytes, Request]:
    """A marker's value and facts."""
    name = marker_name(number)
    micros = (at - EPOCH) // timedelta(microseconds=1)
    value = (
        f'{{"request_id":"{name}","at":"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}Z","user":"{name}",'
        f'"path":"/{name}/","status":{-number - 1},"bytes":1,"ms":1.0}}'
    )
    return value.encode(), Request(micros, name, f"/{name}/", -number - 1, 1, 1.0)
