"""The decoder's whole pass in C++ (`core/`). Optional: where it was not built, the PyTorch pass serves."""

from __future__ import annotations


def why_missing() -> str | None:
    """Return None where the native pass can run, else the reason why it cannot."""
    try:
        import outrider.native._core  # noqa: F401
    except ImportError as error:
        if error.name == f"{__name__}._core":
            return "it was not built (no C++ compiler at install time?)"
        return str(error)
    return None
