"""The table as a page to read: plain HTML with the dashboard's style, without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import Any

from tenure.web.api.description import description


@cache
def readable(root: str = "") -> bytes:
    return "\n".join(_page(description(root))).encode()


def _page(told: dict[str, Any]) -> Iterator[str]:
    title = f"HTTP API of {told['info']['title']} {told['info']['version']}"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield '<link rel="icon" href="../static/mark.svg" type="image/svg+xml">'
    yield '<link rel="stylesheet" href="../static/tenure.css">'
    yield f"<title>{escape(title)}</title></head><body><main>"
    yield '<p class="crumb"><a href="../">Dashboard</a></p>'
    yield f"<h1>{escape(title)}</h1>"
    yield '<p>For programs: <a href="openapi.json">openapi.json</a>, OpenAPI 3.1. Errors are'
    yield "<code>application/problem+json</code>. A change needs <code>If-Match</code> with the"
    yield "<code>ETag</code> that you read. A list says in <code>next</code> the"
    yield "<code>cursor</code> of its next page. A slash in a name is written %2F.</p>"
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
    ]
    yield "<h2>Contents</h2>"
    yield '<div class="scroll" tabindex="0"><table class="cards"><tbody>'
    for place, operation in operations:
        link = f'<a href="#{escape(operation["operationId"], quote=True)}">{escape(place)}</a>'
        yield f'<tr><th scope="row" class="slim">{link}</th>'
        yield f"<td>{escape(operation['summary'])}</td></tr>"
    yield "</tbody></table></div>"
    common = _common([operation["responses"] for _, operation in operations])
    yield "<h2>Every operation may answer</h2>"
    yield from _answers(common)
    for place, operation in operations:
        yield from _operation(place, operation, told["components"]["schemas"], common)
    yield "</main></body></html>\n"


def _common(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all of them have, so that it is said once."""
    first, *others = answers
    return {
        status: response
        for status, response in first.items()
        if all(other.get(status) == response for other in others)
    }


def _operation(
    place: str, operation: dict[str, Any], schemas: dict[str, Any], common: dict[str, Any]
) -> Iterator[str]:
    name = escape(operation["operationId"], quote=True)
    yield f'<section id="{name}"><h2><code>{escape(place)}</code></h2>'
    yield f"<p>{escape(operation['summary'])}</p>"
    rows = [
        (each["name"], each["in"], each["schema"], each["required"])
        for each in operation["parameters"]
    ]
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        schema = schemas[_name(body)]
        rows += [
            (name, "body", each, name in schema.get("required", []))
            for name, each in schema.get("properties", {}).items()
        ]
    if rows:
        yield '<div class="scroll" tabindex="0">'
        yield "<table><thead><tr><th>name</th><th>in</th><th>type</th><th>needed</th></tr></thead>"
        yield "<tbody>"
        for name, where, schema, required in rows:
            cells = (name, where, kind_of(schema), "yes" if required else "")
            yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        yield "</tbody></table></div>"
    answers = operation["responses"].items()
    yield from _answers({status: told for status, told in answers if status not in common})
    yield "</section>"


def _answers(answers: dict[str, Any]) -> Iterator[str]:
    yield "<ul>"
    for status, response in answers.items():
        content = response.get("content", {}).get("application/json")
        answer = f": {_name(content['schema'])}" if content else ""
        said = response["description"].removesuffix(".") + answer
        yield f"<li><code>{status}</code> {escape(said)}</li>"
    yield "</ul>"


def kind_of(schema: dict[str, Any]) -> str:
    """In a few words."""
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " or ".join(kind_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(str(each) for each in schema["enum"])
    kind = str(schema.get("type", "any JSON"))
    if kind == "array":
        return f"array of {kind_of(schema.get('items', {}))}"
    return kind


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
