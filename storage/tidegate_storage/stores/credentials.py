"""Checks for a store's credentials, so that obstore asks no metadata server without need.

If obstore finds no credentials, it asks 169.254.169.254, or metadata.google.internal, for the role
that this machine has in its cloud.  Outside a cloud, that address belongs to another host or to
none, so an operator who forgot a key would wait for a timeout.  So the URL of a machine with a role
says `machine_role=true`.  The same holds for boto3, which reads profile files for us.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from .object_store import StoreMisconfigured

MACHINE_ROLE: Final = "machine_role"

_PROFILE_FILES: Final = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
_GOOGLE_FILE: Final = "~/.config/gcloud/application_default_credentials.json"

_CLIENT: Final = frozenset({"AZURE_CLIENT_ID", "AZURE_TENANT_ID"})
_ENOUGH: Final[Mapping[str, tuple[frozenset[str], ...]]] = {
    "s3": (
        frozenset(
            {"AWS_ACCESS_KEY_ID"}
        ),  # if only the secret key is missing, the message names that key
        frozenset({"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"}),
        frozenset({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"}),
        frozenset({"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}),
        frozenset({"AWS_SKIP_SIGNATURE"}),
    ),
    "gs": (
        frozenset({"SERVICE_ACCOUNT"}),
        frozenset({"GOOGLE_SERVICE_ACCOUNT"}),
        frozenset({"GOOGLE_SERVICE_ACCOUNT_PATH"}),
        frozenset({"GOOGLE_SERVICE_ACCOUNT_KEY"}),
        frozenset({"GOOGLE_APPLICATION_CREDENTIALS"}),
        # GOOGLE_SKIP_SIGNATURE is not enough: obstore signs each PUT to GCS nevertheless, and would
        # ask the metadata server for a token.
        frozenset({"GOOGLE_BEARER_TOKEN"}),
    ),
    "az": (
        frozenset({"AZURE_STORAGE_ACCOUNT_KEY"}),
        frozenset({"AZURE_STORAGE_ACCESS_KEY"}),
        frozenset({"AZURE_STORAGE_MASTER_KEY"}),
        frozenset({"AZURE_STORAGE_SAS_KEY"}),
        frozenset({"AZURE_STORAGE_SAS_TOKEN"}),
        frozenset({"AZURE_STORAGE_TOKEN"}),
        _CLIENT | {"AZURE_CLIENT_SECRET"},
        _CLIENT | {"AZURE_FEDERATED_TOKEN_FILE"},
        frozenset({"AZURE_USE_AZURE_CLI"}),
        frozenset({"AZURE_STORAGE_USE_EMULATOR"}),
        frozenset({"AZURE_SKIP_SIGNATURE"}),
    ),
}
"""Variables that obstore reads, and that suffice together.  As of obstore 0.12."""

_MORE: Final = frozenset({"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"})
_MANY_LINES: Final = frozenset({"GOOGLE_SERVICE_ACCOUNT_KEY"})
"""JSON, in which they mean nothing."""

_IN_URL: Final = frozenset({"skip_signature", "use_emulator", "service_account"})
_ADVICE: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS",
    "az": "set AZURE_STORAGE_ACCOUNT_KEY",
}


def taken_machine_role(config: dict[str, Any]) -> bool:
    """Take machine_role out of a URL's settings; all others are obstore's.

    Raises:
      StoreMisconfigured: the value is neither true nor false.
    """
    text = str(config.pop(MACHINE_ROLE, "false"))
    if text not in ("true", "false"):
        raise StoreMisconfigured(f"{MACHINE_ROLE}={text}: write true or false")
    return text == "true"


def has_credentials(scheme: str, config: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    """Return whether obstore has credentials for a store, or needs none.

    Args:
      config: the settings of its URL.
    """
    given = {name for name, text in environ.items() if text.lower() not in ("", "false")}
    if any(names <= given for names in _ENOUGH[scheme]):
        return True
    if any(str(config.get(name, "false")).lower() != "false" for name in _IN_URL):
        return True
    return scheme == "gs" and os.path.exists(os.path.expanduser(_GOOGLE_FILE))


def refuse_white_space(scheme: str, environ: Mapping[str, str]) -> None:
    """Check that no credential has white space around it, or a line break: no header takes it.

    Raises:
      StoreMisconfigured: names the variable.
    """
    for name in sorted({*_MORE, *(each for names in _ENOUGH[scheme] for each in names)}):
        text = environ.get(name, "")
        if name not in _MANY_LINES and (text != text.strip() or len(text.splitlines()) > 1):
            raise StoreMisconfigured(
                f"{name} has white space or a line break around or in its value: remove it"
            )


def no_credentials(scheme: str, url: str) -> StoreMisconfigured:
    """Return the error of a store without credentials; its text says how to give some."""
    separator = "&" if "?" in url else "?"
    return StoreMisconfigured(
        f"no credentials were found: {_ADVICE[scheme]}; if this machine has a role in its cloud,"
        f" add {separator}{MACHINE_ROLE}=true to the URL"
    )


def has_profiles(environ: Mapping[str, str]) -> bool:
    """Return whether files of AWS's tools exist, which obstore does not read."""
    return any(
        os.path.exists(os.path.expanduser(environ.get(name, default)))
        for name, default in _PROFILE_FILES.items()
    )


def profile_credentials(*, machine_role: bool) -> Callable[[], Any] | None:
    """Return a function that reads credentials from AWS's files; None if they hold none.

    Raises:
      StoreMisconfigured: boto3 is missing, or cannot use the files.
    """
    if importlib.util.find_spec("boto3") is None:
        raise StoreMisconfigured("install boto3: it reads the credentials in ~/.aws")
    from botocore.exceptions import BotoCoreError

    try:
        return _boto3_provider(machine_role=machine_role)
    except BotoCoreError as error:
        raise StoreMisconfigured(f"the credentials in ~/.aws cannot be used: {error}") from error


def _boto3_provider(*, machine_role: bool) -> Callable[[], Any] | None:
    import boto3
    from botocore.session import Session
    from obstore.auth.boto3 import Boto3CredentialProvider

    session: Any = Session()
    if not machine_role:
        # Remove the metadata server, the last of the chain.  A profile that names it as its source
        # may still use it.
        session.get_component("credential_provider").remove("iam-role")
    if session.get_credentials() is None:
        return None
    connect: Any = boto3
    return Boto3CredentialProvider(connect.Session(botocore_session=session))
