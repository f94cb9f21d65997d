"""docs/openapi.json, generated from the routes and models: `python -m tandem.serving.http.openapi > docs/openapi.json`."""

import json

from tandem.serving.http.app import document


def page() -> str:
    """The file: the OpenAPI document that a server gives at /openapi.json, indented."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  its output is the file
