"""Endless invalid tokens, while the provider's keys cannot be fetched, delay no other request."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import msgspec
import pytest

from tandem.serving.access import oidc
from tests.serving.access.key_server import key_server
from tests.serving.access.provider import SETTINGS, Issuing, new_key
from tests.serving.http.connections.victim import REQUESTS, answered
from tests.serving.http.served import Served, serving
from tests.serving.world import forty_hits

ATTACKERS = 16


@contextmanager
def attacked(served: Served, address: str, bogus: list[str]) -> Iterator[list[int]]:
    """While it lasts, as many clients as there are bogus tokens send each its own, again and again, and the clock goes on."""
    over, statuses, trusted = threading.Event(), list[int](), ssl.create_default_context()

    def attack(shown: str) -> None:
        with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {shown}"}, timeout=60, verify=trusted) as client:
            while not over.wait(0.05):
                served.seconds += 0.1
                with suppress(httpx.HTTPError):
                    statuses.append(client.get("/me").status_code)

    threads = [threading.Thread(target=attack, args=(shown,)) for shown in bogus]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["after keys were fetched", "before"])
def test_requests_are_answered_while_the_provider_hangs(tmp_path: Path, *, known: bool) -> None:
    issuing = Issuing()
    with key_server(issuing) as provider:
        served = Served(forty_hits(tmp_path), {"oidc": msgspec.structs.replace(SETTINGS, keys=provider.address)})
        mine, theirs = served.token("bystander"), issuing.signed(now=served.now)
        provider.how = "keys" if known else "hang"
        with serving(served) as address:
            if known:  # a server that fetches when it is asked does so now
                headers = {"Authorization": f"Bearer {theirs}"}
                assert httpx.get(f"{address}/me", headers=headers).status_code == 200
            provider.how = "hang"
            served.seconds += 120
            bogus = [issuing.signed(key=new_key(kid), now=served.now) for kid in ("k1", "k9") for _ in range(ATTACKERS // 2)]
            with attacked(served, address, bogus) as statuses:
                assert answered(address, mine) == REQUESTS
                if known:
                    assert answered(address, theirs) == REQUESTS
            assert set(statuses) <= ({401, 429} if known else {503})
            provider.go_on.set()


@pytest.mark.slow
def test_a_key_withdrawn_under_its_id_is_refused_while_others_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider has another key under the same `kid`, and tokens of the withdrawn one are sent without end."""
    monkeypatch.setattr(oidc, "SPACING_S", 1.0)
    issuing = Issuing()
    with key_server(issuing) as provider:
        served = Served(forty_hits(tmp_path), {"oidc": msgspec.structs.replace(SETTINGS, keys=provider.address)})
        mine, withdrawn = served.token("bystander"), issuing.signed(now=served.now)
        with serving(served) as address, httpx.Client(base_url=address, timeout=60) as client:

            def status(shown: str) -> int:
                return client.get("/me", headers={"Authorization": f"Bearer {shown}"}).status_code

            assert status(withdrawn) == 200
            issuing.key = new_key("k1")
            fresh = issuing.signed(now=served.now)
            with attacked(served, address, [withdrawn] * ATTACKERS) as statuses:
                over = time.monotonic() + oidc.SPACING_S + oidc.FETCH_S
                while status(fresh) != 200:
                    assert time.monotonic() < over
                    time.sleep(0.1)
                assert status(withdrawn) in {401, 429}
                assert answered(address, mine) == REQUESTS
                assert answered(address, fresh) == REQUESTS
                statuses.clear()
                assert answered(address, mine) == REQUESTS
            assert set(statuses) <= {401, 429}
