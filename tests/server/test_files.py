"""The page's files, and nothing but them, under a strict policy."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from outrider.server.app import PAGE
from served import Served, serving, tiny_llm

PATHS = [
    "/../app.py",
    "/%2e%2e/app.py",
    "/..%2fapp.py",
    "//etc/passwd",
    "/..\\app.py",
    "/%00",
    "/page/../../app.py",
]


def raw(served: Served, path: str) -> bytes:
    """Ask for a path as it stands; clients would tidy it up."""
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname or "", place.port or 0)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("path", PATHS)
def test_no_path_reaches_a_file_outside_the_page(served: Served, path: str) -> None:
    answer = raw(served, path)
    assert re.match(rb"HTTP/1.1 40\d", answer), answer[:200]
    assert b"create_app" not in answer
    assert b"root:" not in answer


def test_a_link_out_of_the_page_is_not_followed(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("x")
    (tmp_path / "secret").write_text("secret")
    (page / "link").symlink_to(tmp_path / "secret")
    with serving(tiny_llm(), page=page) as served:
        assert served.get("/link").status_code == 404
        assert served.get("/").status_code == 200


def test_files_of_other_kinds_and_of_folders_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "index.html").write_text("x")
    with serving(tiny_llm(), page=tmp_path) as served:
        assert served.get("/notes.txt").status_code == 404
        assert served.get("/inner/index.html").status_code == 404
        assert served.get("/inner").status_code == 404


def test_every_file_comes_under_a_policy_without_inline_code(served: Served) -> None:
    for file in PAGE.iterdir():
        answer = served.get(f"/{file.name}")
        assert answer.status_code == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_path_that_is_neither_api_nor_file_is_not_found(served: Served) -> None:
    assert served.get("/nothing").status_code == 404
    assert served.post("/v1/nothing", {}).status_code == 404
    assert served.post("/index.html", {}).status_code == 405


@pytest.mark.parametrize("file", sorted(PAGE.iterdir()), ids=lambda file: file.name)
def test_no_file_names_another_host_or_makes_markup_of_text(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"https?:|//\w+\.\w|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text
    )
    assert not re.search(r"\sstyle=|\son\w+=\"|<script>|<style", text)
    assert len(text.splitlines()) <= 150
