"""From a URL to an object store.

    memory:                              gone with the process
    file:DIR, file:///DIR                files below a folder
    s3://BUCKET/PREFIX?endpoint=...&region=...
    gs://BUCKET/PREFIX?endpoint=...
    az://CONTAINER/PREFIX?account_name=...

Credentials are never part of the URL; obstore and boto3 find them as the clouds' own tools do.
Only with machine_role=true does obstore ask the cloud for this machine's role (credentials.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import from_url

from tidegate_runtime.url_secrets import without_secrets

from .credentials import (
    MACHINE_ROLE,
    has_credentials,
    has_profiles,
    no_credentials,
    profile_credentials,
    refuse_white_space,
    taken_machine_role,
)
from .file_store import FileObjectStore
from .files.real_disk import RealDisk, RealDiskSteps
from .files.recipes import sweep_temporary
from .memory_store import MemoryObjectStore
from .object_store import DEFAULT_DEADLINE_SECONDS, ObjectStore, StoreMisconfigured
from .remote_store import RemoteObjectStore

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

TEMPORARY_FILE_AGE_SECONDS = 3600
READ_RETRIES = 3

_SETTINGS = {
    "s3": {
        "endpoint",
        "region",
        "virtual_hosted_style_request",
        "skip_signature",
        "request_payer",
        "server_side_encryption",
        "sse_kms_key_id",
        MACHINE_ROLE,
    },
    "gs": {"endpoint", "service_account", MACHINE_ROLE},
    "az": {"account_name", "endpoint", "use_emulator", "skip_signature", MACHINE_ROLE},
}


def open_store(
    url: str,
    *,
    environ: Mapping[str, str] = os.environ,
    deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
) -> ObjectStore:
    """Open the store that a URL names.  Blocks briefly: call it only at a process's start.

    Raises:
      StoreMisconfigured: the sentence says what is wrong with the URL or the place.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return MemoryObjectStore()
    if parts.scheme == "file":
        return _open_folder(_folder(url, parts), deadline_seconds)
    if parts.scheme in _SETTINGS:
        return _open_remote(url, parts, environ, deadline_seconds)
    raise StoreMisconfigured(
        f"{without_secrets(url)!r} names no object store: write memory:, file:DIR,"
        " s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
    )


def requests_cost_money(url: str) -> bool:
    """Return ObjectStore.requests_cost_money for the store of a URL."""
    return urlsplit(url).scheme in _SETTINGS


def _folder(url: str, parts: SplitResult) -> str:
    if parts.netloc or not parts.path or parts.query:
        raise StoreMisconfigured(
            f"{without_secrets(url)!r} names no folder: write file:DIR or file:///DIR"
        )
    return unquote(parts.path)


def _open_folder(folder: str, deadline_seconds: float) -> ObjectStore:
    steps = RealDiskSteps(folder)
    try:
        steps.make_root()
        sweep_temporary(steps, time.time() - TEMPORARY_FILE_AGE_SECONDS)
    except OSError as error:
        raise StoreMisconfigured(f"the folder {folder!r} cannot hold objects: {error}") from error
    return FileObjectStore(RealDisk(steps), deadline_seconds=deadline_seconds)


def _open_remote(
    url: str, parts: SplitResult, environ: Mapping[str, str], deadline_seconds: float
) -> ObjectStore:
    config = _config(url, parts)
    machine_role = taken_machine_role(config)
    refuse_white_space(parts.scheme, environ)
    if parts.scheme == "s3":
        _add_s3_settings(config, environ)
    is_found = has_credentials(parts.scheme, config, environ)
    options: dict[str, Any] = {}
    if parts.scheme == "s3" and not is_found:
        options = _profile_options(environ, machine_role=machine_role)
    is_plain_http = _endpoint_scheme(config) == "http"
    client: ClientConfig = {
        "allow_http": is_plain_http or "use_emulator" in config,
        "timeout": timedelta(seconds=deadline_seconds),
    }
    place = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if parts.scheme == "gs" and "endpoint" in config:
        config["base_url"] = config.pop("endpoint")

    def connect(max_retries: int) -> Any:
        retries: RetryConfig = {
            "max_retries": max_retries,
            "retry_timeout": timedelta(seconds=deadline_seconds),
        }
        return from_url(
            place, config=config, client_options=client, retry_config=retries, **options
        )

    try:
        store = RemoteObjectStore(
            connect(0), connect(READ_RETRIES), deadline_seconds=deadline_seconds
        )
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n\nDebug source")[0]
        raise StoreMisconfigured(f"{without_secrets(url)!r} cannot be opened: {reason}") from error
    if not (is_found or options or machine_role):
        raise no_credentials(parts.scheme, url)
    return store


def _profile_options(environ: Mapping[str, str], *, machine_role: bool) -> dict[str, Any]:
    if not has_profiles(environ):
        return {}
    provider = profile_credentials(machine_role=machine_role)
    return {} if provider is None else {"credential_provider": provider}


def _config(url: str, parts: SplitResult) -> Any:
    """Return the settings in a URL's query; typed Any, since each cloud has its own type."""
    if not parts.netloc:
        place = f"{parts.scheme}://{'CONTAINER' if parts.scheme == 'az' else 'BUCKET'}/PREFIX"
        raise StoreMisconfigured(f"{without_secrets(url)!r} names no bucket: write {place}")
    if "@" in parts.netloc:
        raise StoreMisconfigured(_in_environment(f"a URL of {parts.scheme}:// names no key"))
    config = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(config.keys() - _SETTINGS[parts.scheme])
    if unknown:
        known = ", ".join(sorted(_SETTINGS[parts.scheme]))
        raise StoreMisconfigured(
            f"a URL of {parts.scheme}: does not take {', '.join(unknown)}; it takes {known}"
        )
    return config


def _endpoint_scheme(config: Mapping[str, Any]) -> str:
    """Return "http" or "https", or "" for the cloud's own endpoint.

    obstore panics at its first request if the endpoint has no scheme.
    """
    endpoint = str(config.get("endpoint", ""))
    if "@" in endpoint.partition("?")[0]:
        # obstore would write user and password into the text of each error.
        raise StoreMisconfigured(_in_environment("an endpoint has no user and password"))
    scheme = _scheme_of(endpoint)
    if endpoint and scheme not in ("http", "https"):
        raise StoreMisconfigured(
            f"endpoint {without_secrets(endpoint)!r} is no URL: write endpoint=http://HOST:PORT, or"
            " https://"
        )
    return scheme


def _in_environment(wrong: str) -> str:
    return f"{wrong}: leave out what is before the @; keys are found as the cloud's own tools do"


def _scheme_of(url: str) -> str:
    """Return "" if the endpoint has no host, an impossible port, or characters that no URL has."""
    try:
        parts = urlsplit(url)
        is_good = parts.hostname and parts.port != 0 and not any(map(str.isspace, url))
    except ValueError:
        return ""
    return parts.scheme if is_good else ""


def _add_s3_settings(config: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Take settings that the URL does not give from the variables that AWS's own tools read."""
    for setting, names in (
        ("endpoint", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")),
        ("region", ("AWS_REGION", "AWS_DEFAULT_REGION")),
        ("access_key_id", ("AWS_ACCESS_KEY_ID",)),
        ("secret_access_key", ("AWS_SECRET_ACCESS_KEY",)),
        ("session_token", ("AWS_SESSION_TOKEN",)),
    ):
        found = next((environ[name] for name in names if environ.get(name)), None)
        if found is not None:
            config.setdefault(setting, found)
    # TLS protects the body in transit; hashing it with SHA-256 would cost twice as much CPU as all
    # other work of the request.
    config["unsigned_payload"] = True
    config["conditional_put"] = "etag"
