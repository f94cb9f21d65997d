"""The options of an object store as delta-rs names them, sorted into the three groups in which obstore takes them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from tandem.views.errors import TandemError

_CLIENT: Final = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only"),
        *("http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle"),
        *("pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes"),
        *("randomize_addresses", "read_timeout", "timeout", "user_agent"),
    }
)
"""Options of the HTTP client, which obstore refuses among those of the store."""

_PREFIX: Final = re.compile("^(aws|azure|google)_", re.IGNORECASE)
"""Delta-rs takes a client's option also with the prefix of its store, on which obstore panics."""

_DELTA_ONLY: Final = frozenset({"object_store_concurrency_limit", "concurrency_limit"})
"""Options of delta-rs that bound its own requests."""

_RETRIES, _RETRY_TIMEOUT, _BASE = "max_retries", "retry_timeout", "backoff_config.base"
_BACKOFF: Final = {"backoff_config.init_backoff": "init_backoff", "backoff_config.max_backoff": "max_backoff"}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class ClientOptions:
    """Options of the store, of its HTTP client, and for the repetition of requests that fail."""

    store: Mapping[str, Any]
    client: Mapping[str, Any]
    retry: Mapping[str, Any]


def client_options(options: Mapping[str, str]) -> ClientOptions:
    """The groups. Raises TandemError for a value that is not of its option; obstore itself refuses unknown options of a store."""
    store, client = dict[str, Any](), dict[str, Any]()
    retry, backoff = dict[str, Any](), dict[str, Any]()
    for name, value in options.items():
        if (option := _PREFIX.sub("", name).lower()) in _CLIENT:
            client[option] = value
        elif name == _RETRIES:
            retry[name] = int(_matching(name, value, r"\d+", "a whole number"))
        elif name == _BASE:
            backoff["base"] = float(_matching(name, value, r"\d+(\.\d+)?", "a number"))
        elif name == _RETRY_TIMEOUT:
            retry[name] = _duration(name, value)
        elif name in _BACKOFF:
            backoff[_BACKOFF[name]] = _duration(name, value)
        elif name not in _DELTA_ONLY:
            store[name] = value
    return ClientOptions(store, client, {**retry, **({"backoff": backoff} if backoff else {})})


def _duration(name: str, value: str) -> timedelta:
    number, unit = re.split(r"(?<=\d)(?=[a-z])", _matching(name, value, r"\d+(ms|s|m|h)", "a duration such as 500ms, 10s or 3m"))
    return timedelta(seconds=int(number) * _SECONDS[unit])


def _matching(name: str, value: str, pattern: str, expected: str) -> str:
    if not re.fullmatch(pattern, value, re.ASCII):
        raise TandemError(f"storage.options: {name} = {value!r}; expected {expected}", code="settings-invalid")
    return value
