import pytest

from tests.infra.kafka.clients import CLIENTS, Client


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client that sends."""
    return request.param
