"""Secrets among the settings: masked where settings are shown or stored, and listed for logs to leave out."""

import json
import re
import tomllib
from collections.abc import Iterator
from functools import reduce
from typing import Any, Final, cast

import msgspec

from tandem.infra.settings.settings import Settings

MASK: Final = "********"
_SECRET = re.compile(
    r"password|secret|token|jaas|credential|(?<![a-z])sas(?![a-z])|"
    r"(access|account|customer|encryption|master|private)[._]?key(?!Size)",
    re.IGNORECASE,
)
_PROPERTY: Final = re.compile(r"-D(?P<name>[^\s=]+)=(?P<value>[^\s\"']+)")
"""A system property among the options of a JVM."""


def effective(settings: Settings) -> dict[str, Any]:
    """The settings as a document, with every secret masked."""
    return cast("dict[str, Any]", masked(msgspec.to_builtins(settings)))


def secrets(settings: Settings) -> frozenset[str]:
    """The values that `effective` masks, also in the form of JSON: no log may contain them."""
    found = {text for text in _secret(msgspec.to_builtins(settings)) if text}
    return frozenset(found | {json.dumps(text)[1:-1] for text in found})


def without_secrets(content: bytes) -> bytes:
    """A settings file with every secret masked, so that it can be stored; empty if that cannot be done.

    A file without secrets is returned unchanged, and so is a file that is not TOML.
    """
    try:
        text = content.decode("utf-8")
        hidden = set(_secret(tomllib.loads(text)))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return content
    for secret in sorted(hidden, key=len, reverse=True):
        for written in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
            text = text.replace(written, MASK)
    try:
        left = set(_secret(tomllib.loads(text))) - {MASK}
    except tomllib.TOMLDecodeError:
        return b""
    return b"" if left else text.encode("utf-8")


def _secret(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _secret(inner, key)
    elif value and _SECRET.search(name):
        yield str(value)
    elif isinstance(value, str):
        yield from (found["value"] for found in _PROPERTY.finditer(value) if _SECRET.search(found["name"]))


def masked(value: Any, name: str = "") -> Any:
    """The value of the setting of this name, with every secret in it masked."""
    if isinstance(value, dict):
        return {key: masked(inner, key) for key, inner in value.items()}
    if value and _SECRET.search(name):
        return MASK
    return reduce(lambda text, secret: text.replace(secret, MASK), _secret(value), value) if isinstance(value, str) else value
