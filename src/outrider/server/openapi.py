"""The description of the API that other programs read, at /openapi.json."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from outrider.server import schema

BODIES: dict[str, type[BaseModel]] = {
    "/v1/completions": schema.CompletionRequest,
    "/v1/chat/completions": schema.ChatRequest,
    "/tokenize": schema.TokenizeRequest,
    "/detokenize": schema.DetokenizeRequest,
}


def describe(app: FastAPI, version: str) -> None:
    """Have an application describe the bodies that it reads by itself."""

    def made() -> dict[str, Any]:
        if not app.openapi_schema:
            document = get_openapi(title=app.title, version=version, routes=app.routes)
            _, models = models_json_schema(
                [(body, "validation") for body in BODIES.values()],
                ref_template="#/components/schemas/{model}",
            )
            document.setdefault("components", {}).setdefault("schemas", {}).update(models["$defs"])
            for path, body in BODIES.items():
                content = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
                document["paths"][path]["post"]["requestBody"] = {
                    "required": True,
                    "content": {"application/json": content},
                }
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = made  # type: ignore[method-assign]
