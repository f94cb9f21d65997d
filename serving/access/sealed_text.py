"""Texts that somebody carries and cannot read: where a stream of changes goes on, for those who may not see positions.

And digests that tell texts apart without telling what they are.
"""

import hmac
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

_BYTES: Final = 32
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}
_BLOCK: Final = 256
_DIGITS: Final = 32
_BEFORE: Final = "sealed."


@dataclass(frozen=True)
class Seal:
    """Encrypts with a key in a file that its owner alone may read; the first use makes it, and all servers of a project share it.

    `random` gives this many bytes that nobody can foresee. A text that is sealed is padded, so its length tells nothing.
    """

    file: Path
    random: Callable[[int], bytes]

    def close(self, text: str) -> str:
        """The text as only a server of the project can read it."""
        content = text.encode()
        padded = content + b" " * (-len(content) % _BLOCK)
        return _BEFORE + jwe.encrypt_compact(_HEADER, padded, self._key)

    def open(self, sealed: str) -> str | None:
        """Inverse of `close`; None for what was not sealed here."""
        if not sealed.startswith(_BEFORE):
            return None
        with suppress(JoseError, ValueError, TypeError):
            found = jwe.decrypt_compact(sealed.removeprefix(_BEFORE), self._key, algorithms=list(_HEADER.values()))
            return (found.plaintext or b"").decode().rstrip(" ")
        return None

    def digest(self, content: bytes) -> str:
        """A text that is the same for the same content, from which nobody without the key can tell whether a content fits."""
        return hmac.digest(self._key.raw_value, b"digest" + content, "sha256").hex()[:_DIGITS]

    @cached_property
    def _key(self) -> OctKey:
        with suppress(FileNotFoundError):
            return OctKey.import_key(self.file.read_bytes())
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self.file.with_suffix(f".{os.getpid()}")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(self.random(_BYTES))
        # Of several servers the first one's key stays: a link never replaces a file.
        with suppress(FileExistsError):
            os.link(new, self.file)
        new.unlink()
        return OctKey.import_key(self.file.read_bytes())
