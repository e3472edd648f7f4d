from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tidegate_storage.stores.file_store import FileObjectStore
from tidegate_storage.stores.load import open_store, requests_cost_money
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import StoreMisconfigured, StoreUnavailable
from tidegate_storage.stores.remote_store import RemoteObjectStore

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
        ("gs://bucket/prefix", RemoteObjectStore, True),
    ):
        store = open_store(url, environ={**KEYS, "GOOGLE_BEARER_TOKEN": "token"})
        assert type(store) is kind
        assert store.requests_cost_money is requests_cost_money(url) is is_paid
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
        ("s3://bucket?endpint=x", "does not take endpint; it takes endpoint, machine_role"),
        ("s3://bucket?endpoint=127.0.0.1:8333", "'127.0.0.1:8333' is no URL: write endpoint=http:"),
        ("s3://bucket?endpoint=localhost:8333", "'localhost:8333' is no URL"),
        ("s3://bucket?endpoint=http://", "'http://' is no URL"),
        ("s3://bucket?endpoint=http://[::1:8333", "is no URL"),
        ("s3://bucket?endpoint=http://127.0.0.1:abc", "is no URL"),
        ("s3://bucket?endpoint=http://127.0.0.1:99999", "is no URL"),
        ("s3://bucket?endpoint=http://a b:1", "is no URL"),
        ("s3://bucket?endpoint=http://127.0.0.1:1/x y", "is no URL"),
        ("s3://bucket?secret_access_key=x", "does not take secret_access_key"),
        ("gs://bucket?skip_signature=true", "does not take skip_signature; it takes endpoint"),
        ("s3://bucket?skip_signature=perhaps", "cannot be opened"),
        ("az://container", "cannot be opened"),
    ],
)
def test_a_bad_url_gets_a_clear_error(url: str, sentence: str) -> None:
    with pytest.raises(StoreMisconfigured, match=sentence.replace("?", r"\?")):
        open_store(url, environ=KEYS)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:s3cret@bucket/p?endpoint=http://127.0.0.1:1",
        "s3://s3cret@bucket",
        "s3://bucket?endpoint=http://user:s3cret@127.0.0.1:1",
        "s3://bucket?endpoint=http://user:s3cret@[::1:8333",
        "s3://bucket?secret_access_key=s3cret",
        "gs://s3cret@bucket",
        "az://:s3cret@container?account_name=a&skip_signature=true",
        "s4://key:s3cret@bucket",
        "objects://key:s3cret@/p",
        "s3://bucket?skip_signature=x&password=s3cret",
        "az://container?account_key=s3cret",
    ],
)
def test_a_url_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    """obstore's errors would show the secret each time that the store does not answer."""
    with pytest.raises(StoreMisconfigured) as refused:
        open_store(url, environ=KEYS)
    assert "s3cret" not in str(refused.value)


def test_a_bad_endpoint_in_the_environment_gets_a_clear_error() -> None:
    with pytest.raises(StoreMisconfigured, match=r"'store\.local' is no URL"):
        open_store("s3://bucket", environ={**KEYS, "AWS_ENDPOINT_URL": "store.local"})


def test_a_folder_that_cannot_be_made_gets_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreMisconfigured, match="cannot hold objects"):
        open_store(f"file:{tmp_path}/taken/below")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder without any file of credentials."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [each for each in os.environ if each.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    return tmp_path


REMOTE = {
    "s3": "s3://bucket/p?region=r",
    "gs": "gs://bucket/p",
    "az": "az://container/p?account_name=account",
}


@pytest.mark.parametrize("url", REMOTE.values())
def test_without_credentials_no_server_is_asked(nowhere: Path, url: str) -> None:
    """Outside a cloud, the metadata server's address may belong to another host."""
    separator = "&" if "?" in url else "?"
    with pytest.raises(StoreMisconfigured, match="no credentials were found: set ") as refused:
        open_store(url, environ={})
    assert f"add {separator}machine_role=true to the URL" in str(refused.value)
    for text in ("false", "perhaps"):
        with pytest.raises(StoreMisconfigured, match="machine_role"):
            open_store(f"{url}{separator}machine_role={text}", environ={})
    assert isinstance(
        open_store(f"{url}{separator}machine_role=true", environ={}), RemoteObjectStore
    )


TOKEN_FILE = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}
POD = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1"}
CLIENT = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t"}


@pytest.mark.parametrize(
    ("scheme", "environ", "is_enough"),
    [
        ("s3", KEYS, True),
        ("s3", TOKEN_FILE | {"AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}, True),
        ("s3", TOKEN_FILE, False),
        ("s3", {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}, True),
        ("s3", POD | {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/t"}, True),
        ("s3", POD, False),
        ("gs", {"GOOGLE_APPLICATION_CREDENTIALS": "/f"}, True),
        ("gs", {"GOOGLE_BEARER_TOKEN": "token"}, True),
        ("gs", {"GOOGLE_SKIP_SIGNATURE": "true"}, False),  # PUTs are signed in any case
        ("az", {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}, True),
        ("az", CLIENT | {"AZURE_CLIENT_SECRET": "s"}, True),
        ("az", CLIENT | {"AZURE_FEDERATED_TOKEN_FILE": "/t"}, True),
        ("az", CLIENT, False),
    ],
)
def test_variables_and_settings_that_count_as_credentials(
    nowhere: Path, scheme: str, environ: dict[str, str], is_enough: bool
) -> None:
    if is_enough:
        open_store(REMOTE[scheme], environ=environ)
        return
    with pytest.raises(StoreMisconfigured, match="no credentials were found"):
        open_store(REMOTE[scheme], environ=environ)


def test_a_file_of_googles_tools_holds_credentials(nowhere: Path) -> None:
    file = nowhere / ".config/gcloud/application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(
        '{"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "t"}'
    )
    open_store(REMOTE["gs"], environ={})


@pytest.fixture
def metadata(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Run a server in place of 169.254.169.254, the metadata server; it never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for name in ("AWS_METADATA_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT"):
            monkeypatch.setenv(name, url)
        monkeypatch.setenv("AWS_METADATA_SERVICE_TIMEOUT", "1")
        yield listener


def test_profile_files_without_credentials_ask_no_server(
    nowhere: Path, metadata: socket.socket
) -> None:
    (nowhere / ".aws").mkdir()
    (nowhere / ".aws/config").write_text("[default]\nregion = r\n")
    with pytest.raises(StoreMisconfigured, match=r"no credentials.*machine_role=true"):
        open_store("s3://bucket")
    with pytest.raises(BlockingIOError):
        metadata.accept()


def test_a_profile_that_does_not_exist_gets_a_clear_error(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nowhere / ".aws").mkdir()
    (nowhere / ".aws/config").write_text("[default]\nregion = r\n")
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(StoreMisconfigured, match="other"):
        open_store("s3://bucket")


async def test_the_metadata_server_is_asked_for_a_machine_role(
    metadata: socket.socket,
) -> None:
    url = "s3://bucket?region=r&machine_role=true&endpoint=http://127.0.0.1:1"
    store = open_store(url, deadline_seconds=30)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.get, "a")
        with trio.fail_after(30):
            asked, _ = await trio.socket.from_stdlib_socket(metadata).accept()
        asked.close()
        nursery.cancel_scope.cancel()


async def test_an_emulator_of_gs_is_asked_over_http(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "any")
    url = "gs://bucket/p?endpoint=http://127.0.0.1:1"
    with pytest.raises(StoreUnavailable, match="no server answers there") as refused:
        await open_store(url).get("a")
    assert "http://127.0.0.1:1/" in str(refused.value)


async def test_an_emulator_of_gs_that_a_key_file_names_needs_an_endpoint(nowhere: Path) -> None:
    key = nowhere / "key.json"
    names = '"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true'
    key.write_text(f'{{"gcs_base_url": "http://127.0.0.1:1", {names}}}')
    url = f"gs://bucket/p?service_account={key}"
    with pytest.raises(StoreMisconfigured, match="add endpoint=http://HOST:PORT to the URL"):
        await open_store(url, environ={}).get("a")
    with pytest.raises(StoreUnavailable, match="no server answers there"):
        await open_store(f"{url}&endpoint=http://127.0.0.1:1", environ={}).get("a")


async def test_credentials_are_read_from_profile_files(
    tmp_path: Path, seaweed_s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
