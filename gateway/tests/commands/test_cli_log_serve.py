"""`tidegate log serve`: verified over HTTP, refused to strangers, ended by a signal."""

from __future__ import annotations

import json
from pathlib import Path

import trustme

from tests.worlds.app_world import serving, tidegate

ANYWHERE = ("--listen", "127.0.0.1:0")


def promises(done_json: str) -> list[str]:
    """Return the broken promises."""
    report = json.loads(done_json)
    assert len(report["promises"]) > 10, report
    return [f"{each['name']}: {each['text']}" for each in report["promises"] if not each["ok"]]


def test_a_served_log_keeps_all_promises(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    token = ("--token-file", "token")
    with serving("log", "serve", "sqlite:log.db", *ANYWHERE, *token, cwd=tmp_path) as process:
        url = process.said["url"]
        refused = tidegate("log", "verify", url, cwd=tmp_path)
        done = tidegate("log", "verify", f"{url}?token-file=token", "--json", cwd=tmp_path)
        again = tidegate("log", "verify", url.replace("//", "//:s3cret@"), cwd=tmp_path)
        code, errors = process.stop()
    assert refused.returncode == 1
    assert "refuses the token" in refused.stderr
    assert promises(done.stdout) == []
    assert "the log is not empty" in again.stdout
    assert code == 0
    assert "s3cret" not in errors + refused.stderr + done.stdout + again.stdout


def test_a_log_is_served_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    (tmp_path / "server.pem").write_bytes(server.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    store = ("--keystore", "server.pem")
    with serving("log", "serve", "memory:", *ANYWHERE, *store, cwd=tmp_path) as process:
        url = process.said["url"]
        done = tidegate("log", "verify", f"{url}?ca-file=ca.pem", "--json", cwd=tmp_path)
        refused = tidegate("log", "verify", url, cwd=tmp_path)
        clear = tidegate("log", "verify", url.replace("https", "http"), cwd=tmp_path)
    assert url.startswith("https://")
    assert promises(done.stdout) == []
    assert "is not trusted" in refused.stderr
    assert clear.returncode == 1


def test_a_log_that_may_only_be_read(tmp_path: Path) -> None:
    with serving("log", "serve", "memory:", *ANYWHERE, "--read-only", cwd=tmp_path) as process:
        done = tidegate("log", "verify", process.said["url"], cwd=tmp_path)
    assert done.returncode == 1
    assert "may only be read" in done.stdout


def test_log_serve_refuses_a_log_that_it_cannot_serve(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for arguments, words in (
        (("paper:", *ANYWHERE), "no metadata log is called 'paper'"),
        (("memory:", "--listen", "nowhere"), "--listen=nowhere is not host:port"),
        (("memory:", *ANYWHERE, "--token-file", "none"), "none cannot be read"),
        (("memory:", *ANYWHERE, "--token-file", "empty"), "write the token into it"),
        (("memory:", *ANYWHERE, "--keystore", "empty"), "--keystore: "),
        (("memory:", *ANYWHERE, "--keystore", "none"), "it cannot be read: No such file"),
    ):
        done = tidegate("log", "serve", *arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert words in done.stderr
