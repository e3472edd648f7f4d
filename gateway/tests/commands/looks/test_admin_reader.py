"""Commands that read admin pages, if another server answers, or if an answer is incomplete."""

from __future__ import annotations

import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tidegate_gateway.cli.admin_reader import Access
from tidegate_gateway.cli.debug.bundle import PAGES, run_bundle
from tidegate_gateway.cli.zones import run_zones

HALF = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf"
HTML = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"


@contextmanager
def answering(text: bytes) -> Iterator[str]:
    """Run a server that gives this answer to each request; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(text)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_an_answer_that_breaks_off_is_a_missing_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(HALF) as admin:
        assert run_bundle([admin], Access(), tmp_path / "b.tar.gz") == 1
    with tarfile.open(tmp_path / "b.tar.gz") as bundle:
        names = {Path(each).name for each in bundle.getnames()}
    assert names == {f"{each}.missing" for each in PAGES.values()}
    assert f"no gateway's admin listener answers at {admin}" in capsys.readouterr().err


def test_a_page_that_is_no_json_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(HTML) as admin:
        assert run_zones([admin], Access(), as_json=True) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"tidegate: no gateway's admin listener answers at {admin} (")
