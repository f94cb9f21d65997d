"""Bodies of requests in a content encoding: unpacked within a bound, which no body exceeds in memory."""

import io
import zlib
from typing import Final

import pyarrow as pa

from tandem.views.errors import TandemError

ENCODINGS: Final = ("gzip", "zstd")
"""The content encodings of bodies that are unpacked."""

_SYNONYMS: Final = {"x-gzip": "gzip"}  # RFC 9110, 8.4.1.3
_GZIP: Final = zlib.MAX_WBITS | 16
_CHUNK: Final = 4096
"""Bytes of a body that zlib takes at once. It copies what follows a member, of which a body may have many."""


class NotUnpacked(TandemError, code="body-encoding-invalid"):
    """The body is not in its content encoding."""


class UnknownEncoding(TandemError, code="body-encoding-unsupported"):
    """The body's content encoding is not supported."""


class BeyondBound(TandemError, code="unpacked-body-too-large"):
    """The unpacked body has more bytes than a body may have."""


def encoding_of(header: str) -> str:
    """The encoding of a Content-Encoding header: one of ENCODINGS, or `identity`. Raises UnknownEncoding."""
    name = header.strip().lower() or "identity"
    name = _SYNONYMS.get(name, name)
    if name not in (*ENCODINGS, "identity"):
        raise UnknownEncoding(
            f"unsupported Content-Encoding {header!r}; send the body in {' or '.join(ENCODINGS)}, or without encoding"
        )
    return name


def unpack(body: bytes, encoding: str, most: int) -> bytes:
    """The body without its encoding: all members of gzip, all frames of zstd. At most `most` bytes and one are unpacked.

    Raises NotUnpacked, also for a body that is cut, and BeyondBound.
    """
    if encoding == "identity":
        return body
    if not body:
        raise NotUnpacked(f"the body has no bytes, which is not {encoding}; nothing is written")
    try:
        plain = _gunzip(body, most + 1) if encoding == "gzip" else _unpack_zstd(body, most + 1)
    except (zlib.error, OSError, EOFError) as error:
        raise NotUnpacked(f"the body is not complete, valid {encoding}: {error}; nothing is written") from error
    if len(plain) > most:
        raise BeyondBound(f"the unpacked body has more than {most} bytes, which is the limit; nothing is written")
    return plain


def _gunzip(body: bytes, most: int) -> bytes:
    plain, at = io.BytesIO(), 0
    while at < len(body):
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            chunk = body[at : at + _CHUNK]
            plain.write(member.decompress(chunk, most - plain.tell()))
            if plain.tell() >= most:
                return plain.getvalue()
            if not chunk:
                raise EOFError("it ends inside a member")
            at += len(chunk) - len(member.unconsumed_tail) - len(member.unused_data)
        while body[at : at + 1] == b"\0":  # the padding of tapes, which gzip ignores
            at += 1
    return plain.getvalue()


def _unpack_zstd(body: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(io.BytesIO(body), "zstd") as stream:
        return bytes(stream.read(most))
