from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from outrider.bench.provenance import provenance
from outrider.bench.result import write_document
from outrider.errors import LoadError


def test_provenance_names_machine_versions_command_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["outrider", "bench", "/home/someone/model", "--suite", "own"])
    model = SimpleNamespace(name="/home/someone/model", details={"weights": "fp16", "source": "/home/x.gguf"})
    found = provenance(model)  # type: ignore[arg-type]
    assert found["command"] == "outrider bench model --suite own"
    assert found["model"] == {"name": "model", "weights": "fp16", "source": "x.gguf"}
    assert found["versions"]["python"].count(".") == 2
    assert found["versions"]["torch"]
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["threads"] >= 1
    assert found["machine"]["processor"]
    assert "/home" not in json.dumps(found)


def test_a_document_is_written_as_json_or_the_error_says_where(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_document({"τ": 1.5}, file)
    assert json.loads(file.read_text(encoding="utf-8")) == {"τ": 1.5}
    with pytest.raises(LoadError, match="--out"):
        write_document({}, tmp_path)
