"""docs/server.md names all that clients may send and all that is counted, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from outrider.server import schema
from served import Served

DOCS = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


def test_every_field_under_outrider_is_documented_and_every_documented_one_exists() -> None:
    table = DOCS.split("## outrider\n")[1].split("\n\n")[1]
    names = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert names == set(schema.OutriderOptions.model_fields)


def test_every_supported_field_of_openais_is_documented() -> None:
    for body in (schema.CompletionRequest, schema.ChatRequest):
        for name, field in body.model_fields.items():
            trivial = name in {"modalities", "service_tier", "store", "parallel_tool_calls"}
            if field.annotation is not type(None) and not trivial:
                assert re.search(rf"`{name}\b", DOCS), name


def test_every_metric_is_documented_and_every_documented_one_exists(served: Served) -> None:
    served.complete(prompt="abcabcabcabc", max_tokens=30, temperature=0)
    served.get("/v1/nothing")
    text = served.get("/metrics").text
    found = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    found = {re.sub(r"_(bucket|count|sum)$", "", name) for name in found if not name.endswith("_created")}
    assert set(re.findall(r"`((?:vllm|outrider):\w+)`", DOCS)) - {"vllm:kv_cache_usage_perc"} == found
