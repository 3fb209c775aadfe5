"""Tests of the native pass, which are left out where it was not built."""

from __future__ import annotations

from outrider.native import why_missing

collect_ignore_glob = ["test_*.py"] if why_missing() else []
