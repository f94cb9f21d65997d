"""The provider's keys follow the provider within the stated times, whatever it sends, and no question waits for it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from tandem.serving.access import oidc
from tandem.serving.access.oidc import Oidc, OidcError, fetch, provider, read_keys
from tests.serving.access.key_server import KeyServer, key_server
from tests.serving.access.provider import SETTINGS, Issuing, new_key
from tests.serving.world import NOON

FAULTS = ("hang", "trickle", "endless", "status", "redirect", "page", "list", "deep", "packed", "many", "closed")


@dataclass
class Followed:
    """`clock` is what ages go by; `told` is what is said of the fetches."""

    server: KeyServer
    oidc: Oidc
    clock: list[float]
    told: list[str | None] = field(default_factory=list)

    @property
    def issuing(self) -> Issuing:
        return self.server.issuing

    def taken(self, shown: str) -> bool:
        began = time.monotonic()
        try:
            return self.oidc.whose(shown, now=NOON) is not None
        finally:
            assert time.monotonic() - began < 2  # it takes microseconds; a fetch that hangs is bounded by seconds

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with key_server(Issuing()) as found:
        yield found


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    oidc._trusted()  # made once, which takes longer than a fetch may here
    monkeypatch.setattr(oidc, "START_S", 30)
    monkeypatch.setattr(oidc, "SPACING_S", 0.05)


@asynccontextmanager
async def followed(server: KeyServer, *, refresh_s: float = 600, stale_s: float = 3600) -> AsyncIterator[Followed]:
    known = provider(msgspec.structs.replace(SETTINGS, keys=server.address))
    assert known is not None
    clock, told = [0.0], []
    made = Oidc.of(known, lambda: clock[0], told=told.append)
    made.keys.refresh_s, made.keys.stale_s = refresh_s, stale_s
    async with made.open():
        yield Followed(server, made, clock, told)


@pytest.mark.anyio
async def test_a_start_fetches_once_and_requests_never_fetch(server: KeyServer) -> None:
    async with followed(server) as found:
        assert all(found.taken(found.issuing.signed()) for _ in range(20))
        await asyncio.sleep(0)
        assert server.asked == ["keys"]


@pytest.mark.anyio
async def test_a_key_that_was_withdrawn_under_its_id_is_refused_by_age(server: KeyServer) -> None:
    async with followed(server, refresh_s=0.1) as found:
        old = found.issuing.signed()
        assert found.taken(old)
        server.issuing.key = new_key()  # the same id, and nobody shows a token of it
        await found.until(lambda: not found.taken(old))
        assert found.taken(found.issuing.signed())


@pytest.mark.anyio
async def test_an_invalid_signature_fetches_the_keys(server: KeyServer) -> None:
    for kid in ("k1", "k2"):  # another key under the same id, and under another
        async with followed(server) as found:
            old = found.issuing.signed()
            assert found.taken(old)
            server.issuing.key = new_key(kid)
            new = found.issuing.signed()
            await found.until(lambda new=new: found.taken(new))
            assert not found.taken(old)


@pytest.mark.anyio
async def test_many_invalid_tokens_cause_few_fetches(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "SPACING_S", 0.5)
    strangers = [new_key(), new_key("k9")]
    async with followed(server) as found:
        bogus = [found.issuing.signed(key=key) for key in strangers]
        began = time.monotonic()
        while time.monotonic() < began + 1.2:
            assert not any(map(found.taken, bogus))
            await asyncio.sleep(0)
        most = 1 + (time.monotonic() - began) / 0.5
        assert 2 <= len(server.asked) <= most


@pytest.mark.anyio
@pytest.mark.parametrize("how", FAULTS)
async def test_cached_keys_count_until_stale_while_fetches_fail(
    server: KeyServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with followed(server, refresh_s=0.05, stale_s=60) as found:
        good, bogus = found.issuing.signed(), found.issuing.signed(key=new_key("k9"))
        server.how = how
        with monkeypatch.context() as patch:  # fetches that have to succeed keep their time, which a busy machine may need
            patch.setattr(oidc, "FETCH_S", 0.3)
            await found.until(lambda: len(found.told) == 1 and found.told[0] is not None)
        assert "keys" in str(found.told[0])
        assert found.taken(good)
        assert not found.taken(bogus)
        found.clock[0] += 61
        with pytest.raises(OidcError, match="last fetched more than 60 s ago"):
            found.taken(good)
        server.how = "keys"
        server.go_on.set()
        await found.until(lambda: found.told[-1] is None)
        assert found.taken(good)
        assert len(found.told) == 2  # said once, and that it is over


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["hang", "page"])
async def test_a_start_waits_briefly_and_reports_missing_keys(
    server: KeyServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "START_S", 0.05)
    server.how = how
    async with followed(server) as found:
        with pytest.raises(OidcError, match="have not been fetched yet"):
            found.taken(found.issuing.signed())
        server.how = "keys"
        server.go_on.set()
        await found.until(lambda: found.oidc.keys._at is not None)
        assert found.taken(found.issuing.signed())


@pytest.mark.anyio
async def test_an_empty_key_set_refuses_all_tokens(server: KeyServer) -> None:
    async with followed(server, refresh_s=0.05) as found:
        good = found.issuing.signed()
        assert found.taken(good)
        server.issuing.key = new_key()
        server.issuing.document = lambda: b'{"keys":[]}'  # type: ignore[method-assign]
        await found.until(lambda: not found.taken(good))


def test_a_hanging_fetch_does_not_delay_the_end_of_the_server(server: KeyServer) -> None:
    async def once() -> float:
        async with followed(server, refresh_s=0.05) as found:
            server.how = "hang"
            await found.until(lambda: "hang" in server.asked)
            return time.monotonic()

    assert time.monotonic() - asyncio.run(once()) < 20


def test_keys_for_other_uses_are_ignored() -> None:
    key = new_key().as_dict(private=False)
    others = [
        {**key, "use": "enc"},
        {**key, "alg": "ES384"},
        {**key, "kid": 7},
        {**key, "kty": "RSA"},
        {**key, "x": "!"},
        "key",
        None,
    ]
    assert not read_keys(json.dumps({"keys": others}).encode(), "ES256")
    assert list(read_keys(json.dumps({"keys": [*others, {**key, "alg": "ES256"}]}).encode(), "ES256")) == ["k1"]


@pytest.mark.anyio
async def test_an_unreachable_address_is_reported() -> None:
    with pytest.raises(OidcError, match=r"http://127\.0\.0\.1:9/keys cannot be fetched"):
        await fetch("http://127.0.0.1:9/keys")
