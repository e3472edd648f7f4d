from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_storage.file_store import FileObjectStore
from tidegate_storage.load import open_store
from tidegate_storage.memory_store import MemoryObjectStore
from tidegate_storage.object_store import StoreMisconfigured
from tidegate_storage.remote_store import RemoteObjectStore

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def test_each_scheme_opens_its_store(tmp_path: Path) -> None:
    for url, kind, is_paid in (
        ("memory:", MemoryObjectStore, False),
        (f"file:{tmp_path}/a%20b", FileObjectStore, False),
        (f"file://{tmp_path}/c", FileObjectStore, False),
        (
            "s3://bucket/prefix?endpoint=http://127.0.0.1:1&region=us-east-1",
            RemoteObjectStore,
            True,
        ),
        ("s3://bucket", RemoteObjectStore, True),
        ("az://container/prefix?account_name=account&skip_signature=true", RemoteObjectStore, True),
        ("gs://bucket/prefix?skip_signature=true", RemoteObjectStore, True),
    ):
        store = open_store(url, environ=KEYS)
        assert type(store) is kind
        assert store.requests_cost_money is is_paid
    assert (tmp_path / "a b").is_dir()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "names no object store: write memory:, file:DIR"),
        ("objects", "names no object store"),
        ("ftp://host/objects", "names no object store"),
        ("file:", "names no folder"),
        ("file://host/objects", "names no folder"),
        ("file:/x?y=z", "names no folder"),
        ("s3:", "names no bucket: write s3://BUCKET/PREFIX"),
        ("az:/container/prefix", "names no bucket: write az://CONTAINER/PREFIX"),
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket?endpint=x", "does not take endpint; it takes endpoint, region"),
        ("s3://bucket?endpoint=127.0.0.1:8333", "'127.0.0.1:8333' is no URL: write endpoint=http:"),
        ("s3://bucket?endpoint=localhost:8333", "'localhost:8333' is no URL"),
        ("s3://bucket?endpoint=http://", "'http://' is no URL"),
        ("s3://bucket?endpoint=http://[::1:8333", "is no URL"),
        ("s3://bucket?endpoint=http://127.0.0.1:abc", "is no URL"),
        ("s3://bucket?endpoint=http://127.0.0.1:99999", "is no URL"),
        ("s3://bucket?endpoint=http://a b:1", "is no URL"),
        ("s3://bucket?endpoint=http://127.0.0.1:1/x y", "is no URL"),
        ("s3://bucket?secret_access_key=x", "does not take secret_access_key"),
        ("s3://bucket?skip_signature=perhaps", "cannot be opened"),
        ("az://container", "cannot be opened"),
    ],
)
def test_a_bad_url_gets_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(StoreMisconfigured, match=sentence.replace("?", r"\?")):
        open_store(url, environ=KEYS)


def test_a_bad_endpoint_of_the_environment_gets_a_sentence() -> None:
    with pytest.raises(StoreMisconfigured, match=r"'store\.local' is no URL"):
        open_store("s3://bucket", environ={**KEYS, "AWS_ENDPOINT_URL": "store.local"})


def test_a_folder_that_cannot_be_made_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreMisconfigured, match="cannot hold objects"):
        open_store(f"file:{tmp_path}/taken/below")


async def test_credentials_are_read_from_profile_files(
    tmp_path: Path, seaweed_s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    profile = tmp_path / "credentials"
    profile.write_text(
        "[default]\n"
        f"aws_access_key_id = {os.environ['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {os.environ['AWS_SECRET_ACCESS_KEY']}\n"
    )
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    store = open_store(seaweed_s3_url.replace("?", "/profile?"))
    await store.put("a", b"body")
    assert await store.get("a") == b"body"


async def test_the_endpoint_may_come_from_the_environment(
    seaweed_s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, endpoint = seaweed_s3_url.partition("?endpoint=")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint.partition("&")[0])
    store = open_store(url + "/environment")
    await store.put("a", b"body")
    assert [info.key for info in await store.list("")] == ["a"]
