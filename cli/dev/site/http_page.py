"""docs/openapi.json as a page of the site: each route with its parameters, bodies and answers."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_HEAD: Final = """\
# HTTP routes

Written from [openapi.json](openapi.json), which each server also returns at `/openapi.json`. [Answers over HTTP](serve.md)
explains how to use them, in the order in which a program needs them.
"""
_VERBS: Final = ("get", "post", "put", "delete", "patch")


def http_page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document."""
    lines = [_HEAD]
    groups: dict[str, list[str]] = {}
    for path, item in document["paths"].items():
        for verb in _VERBS:
            if verb in item:
                of = next(iter(item[verb].get("tags", ())), "server")
                groups.setdefault(of, []).extend(_route(f"{verb.upper()} {path}", item[verb]))
    for group, routes in groups.items():
        lines += [f"## {group.capitalize()}", "", *routes]
    return "\n".join(lines)


def _route(name: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"### `{name}`", "", route.get("description", route.get("summary", "")), "")
    parameters = [parameter for parameter in route.get("parameters", ()) if "$ref" not in parameter]
    if parameters:
        yield from ("| parameter | in | type | meaning |", "| --- | --- | --- | --- |")
        for parameter in parameters:
            required = ", required" if parameter.get("required") else ""
            cells = (f"`{parameter['name']}`", parameter["in"], _type(parameter.get("schema", {})) + required)
            yield f"| {' | '.join(cells)} | {_cell(parameter.get('description', ''))} |"
        yield ""
    for media, content in route.get("requestBody", {}).get("content", {}).items():
        yield from (f"Body `{media}`: {_type(content.get('schema', {}))}.", "")
    answers = ", ".join(f"{code} ({_cell(answer.get('description', ''))})" for code, answer in route.get("responses", {}).items())
    yield from (f"Answers: {answers}.", "")


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{str(schema['$ref']).rpartition('/')[2]}`"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(part) for part in schema[several])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format", schema.get("type", "any")))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").rstrip(".")
