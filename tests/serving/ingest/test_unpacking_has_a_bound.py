"""Unpacking a body takes memory and time in proportion to the bound, whatever the body says."""

import gzip
import resource
import tracemalloc
from time import process_time

import pyarrow as pa
import pytest

from tandem.serving.ingest.content_encoding import BeyondBound, NotUnpacked, unpack

MOST = 1 << 20


def zstd(body: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(body, asbytes=True)
    return packed


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_not_unpacked_beyond_the_bound(encoding: str) -> None:
    bomb = gzip.compress(bytes(256 * MOST), 1) if encoding == "gzip" else zstd(bytes(256 * MOST))
    before, native = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(BeyondBound, match="more than 1048576 bytes"):
            unpack(bomb, encoding, MOST)
        assert tracemalloc.get_traced_memory()[1] < 8 * MOST
    finally:
        tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # kilobytes
    assert pa.total_allocated_bytes() - native < 8 * MOST


def test_a_declared_window_takes_no_memory() -> None:
    """A frame of a window of 128 MiB, the largest that is accepted, with one block of a byte; a larger one is invalid."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    block = (1 << 3 | 1).to_bytes(3, "little") + b"x"
    assert unpack(b"\x28\xb5\x2f\xfd\x00" + bytes([17 << 3]) + block, "zstd", MOST) == b"x"
    with pytest.raises(NotUnpacked):
        unpack(b"\x28\xb5\x2f\xfd\x00" + bytes([18 << 3]) + block, "zstd", MOST)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_many_empty_members_take_time_in_proportion(encoding: str) -> None:
    """Copying what follows each of 50 000 members takes minutes."""
    member = gzip.compress(b"", mtime=0) if encoding == "gzip" else zstd(b"")
    began = process_time()
    assert unpack(member * (MOST // len(member)) + zstd_or_gzip(encoding, b"end"), encoding, MOST) == b"end"
    assert process_time() - began < 10


def zstd_or_gzip(encoding: str, body: bytes) -> bytes:
    return gzip.compress(body) if encoding == "gzip" else zstd(body)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, MOST - 1, MOST])
@pytest.mark.parametrize("encoding", ["gzip", "zstd", "identity"])
def test_a_body_up_to_the_bound_is_unpacked(encoding: str, size: int) -> None:
    body = bytes(n * n % 251 for n in range(size))
    packed = body if encoding == "identity" else zstd_or_gzip(encoding, body)
    assert unpack(packed, encoding, MOST) == body
    if encoding == "gzip":
        assert unpack(packed + bytes(512), encoding, MOST) == body
    if encoding != "identity" and size:
        with pytest.raises(BeyondBound):
            unpack(packed, encoding, size - 1)
