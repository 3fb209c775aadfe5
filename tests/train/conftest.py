from __future__ import annotations

from pathlib import Path

import pytest

import outrider
from outrider.llm import LLM
from outrider.train.candidate import Writing
from outrider.train.generate import write_data
from outrider.train.prompts import Conversation, PromptFile
from outrider.train.texts import Texts
from tiny_target import write_target
from tiny_training import texts_of


@pytest.fixture(scope="session")
def target_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="session")
def llm(target_directory: Path) -> LLM:
    return outrider.load(str(target_directory), weights="fp32")


@pytest.fixture(scope="session")
def data(llm: LLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of 24 short texts."""
    directory = tmp_path_factory.mktemp("data") / "store"
    prompts = PromptFile(tuple(Conversation((f"say {chr(97 + i)}",)) for i in range(24)), "made here")
    write_data(llm, directory, Writing(max_tokens=32, temperatures=(0.0, 0.5)), prompts=prompts)
    return directory


@pytest.fixture(scope="module")
def texts(llm: LLM, data: Path) -> Texts:
    return texts_of(llm, data)
