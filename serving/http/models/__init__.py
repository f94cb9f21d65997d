"""The documents that go over the wire, as OpenAPI has them. A change here is a change of the API."""
