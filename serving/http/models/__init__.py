"""The documents of the API, as OpenAPI has them. A change here changes the API, and docs/openapi.json."""
