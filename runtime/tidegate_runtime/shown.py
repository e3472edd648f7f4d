"""Names of folders, stores and logs for people, without secrets."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from .url_secrets import without_secrets


def shown_path(path: Path | None) -> str:
    """Return a folder as a user would type it."""
    if path is None:
        return ""
    return str(path) if path.is_absolute() else f"./{path}"


def shown_store(url: str) -> str:
    """Return the place of the objects, without secrets."""
    parts = urlsplit(without_secrets(url))
    if parts.scheme == "memory":
        return "memory"
    if parts.scheme == "file":
        return f"local files in {shown_path(Path(unquote(parts.path)))}"
    endpoint = parse_qs(parts.query).get("endpoint", [""])[0]
    place = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    return f"{place} at {urlsplit(endpoint).netloc.rpartition('@')[2]}" if endpoint else place


def shown_log(url: str) -> str:
    """Return the place of the metadata log, without secrets.  The text is not its URL: for that see
    without_secrets().
    """
    scheme, _, rest = without_secrets(url).partition(":")
    if scheme == "memory":
        return "memory"
    if scheme == "sqlite":
        return f"SQLite in {shown_path(Path(rest.removeprefix('//')))}"
    place, _, query = rest.removeprefix("//").partition("?")
    place = place.rpartition("@")[2]
    schema = parse_qs(query).get("schema", [""])[0]  # postgres: which log of the database
    which = f"?schema={schema}" if schema else ""
    return f"{scheme}://{place}{which}"
