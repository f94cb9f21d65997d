"""Tokens for the login by OAUTHBEARER, from the endpoint of `kafka.login_url` (OAuth 2, client credentials)."""

import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

_FRESH: Final = 0.8
"""The share of a token's life after which it is fetched again."""
_SHORT_S: Final = 60.0
"""The life of a token whose endpoint reports none."""


@dataclass
class _Token:
    text: str = field(default="", repr=False)
    until: float = 0.0


class TokenProvider(AbstractTokenProvider):
    """Gives kafka-python a valid token; options are librdkafka's. For any number of threads."""

    def __init__(self, options: Mapping[str, str], timeout_s: int) -> None:
        super().__init__()
        self._options, self._timeout_s = options, timeout_s
        self._lock, self._newest = threading.Lock(), _Token()

    def token(self) -> str:
        """The token as text. Raises SaslAuthenticationFailedError if the endpoint gives none."""
        with self._lock:
            if time.monotonic() >= self._newest.until:
                self._newest = self._fetch()
            return self._newest.text

    def _fetch(self) -> _Token:
        options, began = self._options, time.monotonic()
        url = options["sasl.oauthbearer.token.endpoint.url"]
        form = {"grant_type": "client_credentials"}
        if scope := options.get("sasl.oauthbearer.scope"):
            form["scope"] = scope
        client = (options["sasl.oauthbearer.client.id"], options["sasl.oauthbearer.client.secret"])
        try:
            context = ssl.create_default_context(cafile=options.get("https.ca.location"))
            answer = httpx.post(url, data=form, auth=client, timeout=self._timeout_s, verify=context, trust_env=False)
            answer.raise_for_status()
            document = answer.json()
            return _Token(str(document["access_token"]), began + _FRESH * float(document.get("expires_in", _SHORT_S)))
        except httpx.HTTPStatusError as error:
            why = f"{error.response.status_code} {error.response.reason_phrase}"
        except (httpx.HTTPError, OSError) as error:
            why = str(error) or type(error).__name__
        except (ValueError, KeyError, TypeError):
            why = "the answer has no access_token"
        raise SaslAuthenticationFailedError(f"no OAUTHBEARER token from {url}: {why}")
