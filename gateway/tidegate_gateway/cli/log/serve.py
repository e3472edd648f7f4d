"""`tidegate log serve`: serves a metadata log over HTTP; gateways open it as http://..."""

from __future__ import annotations

import json
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import trio

from tidegate_coordination.log.load import open_log
from tidegate_coordination.logs.http.service import LogService
from tidegate_coordination.logs.http.url import read_token
from tidegate_runtime.addresses import ListenerAddress, host_port, machine_names, url_host
from tidegate_runtime.doors.slots import HTTP_STRANGERS, ConnectionSlots, Visitor
from tidegate_runtime.http.hosts import KnownHosts
from tidegate_runtime.http.server import serve_http
from tidegate_runtime.listening import Listener, accept_forever, bind_listener, stream_of
from tidegate_runtime.log_lines import configure_logs
from tidegate_runtime.output import PROCESS_OUTPUT
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError
from tidegate_runtime.shown import shown_log
from tidegate_runtime.tls.bad_store import BadStore

from ...tls.streams import secured
from ...tls.tls_listener import TlsListener
from ...tls.tls_listeners import TlsListeners
from ...tls.tls_settings import StoreSettings, server_only
from ...work.blocking import InThread
from ..output.telling import was_told

_log = structlog.get_logger("tidegate.log_serve")

MAX_CONNECTIONS: Final = 1024
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class LogServeOptions:
    """The options as typed."""

    url: str
    listen: str
    token_file: Path | None
    read_only: bool
    keystore: Path | None = None
    keystore_password_file: Path | None = None


@PROCESS_OUTPUT.queued()
def run_log_serve(options: LogServeOptions, *, as_json: bool) -> int:
    """Serve until a signal; return the exit code."""
    configure_logs("warning")
    try:
        trio.run(_serve, options, as_json)
    except Exception as error:
        if not was_told(error):
            raise
        return 1
    return 0


async def _serve(options: LogServeOptions, as_json: bool) -> None:
    token = read_token(options.token_file) if options.token_file is not None else None
    tls = _opened_tls(options)
    listener = bind_listener(ListenerAddress("LOG", *host_port("--listen", options.listen)))
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            log = await open_log(options.url)
            try:
                listener.listen()
                _announce(listener, options, as_json=as_json)
                async with trio.open_nursery() as nursery:
                    service = LogService(log, token=token, read_only=options.read_only)
                    if tls is not None:
                        watched = TlsListeners([tls], wall_clock=time.time, blocking=InThread())
                        nursery.start_soon(watched.run)
                    nursery.start_soon(_accept, listener, service, tls)
                    await anext(signals)
                    nursery.cancel_scope.cancel()
            finally:
                await log.aclose()
    finally:
        listener.close()


def _opened_tls(options: LogServeOptions) -> TlsListener | None:
    """Read the keystore, if there is one.

    Raises:
      SettingsError: the keystore cannot be used.
    """
    file = options.keystore_password_file
    if options.keystore is None:
        if file is not None:
            raise SettingsError("--keystore-password-file needs --keystore FILE")
        return None
    try:
        password = Secret(file.read_text().strip()) if file is not None else None
        return TlsListener("LOG", server_only(StoreSettings(options.keystore, password=password)))
    except (OSError, UnicodeError, BadStore) as error:
        raise SettingsError(f"--keystore: {error}") from None


async def _accept(listener: Listener, service: LogService, tls: TlsListener | None) -> None:
    names = (*machine_names(), listener.address.host)
    hosts = KnownHosts(
        names, "use an IP address or the name in --listen, or give --token-file FILE"
    )

    async def serve(accepted: socket.socket, visitor: Visitor) -> None:
        stream = stream_of(accepted)
        found = await secured(stream, tls) if tls is not None else stream
        if found is None:
            return
        await serve_http(
            found,
            service.handle,
            visitor,
            hosts=hosts,
            max_body_bytes=service.max_body_bytes,
            standing_of=service.standing_of,
        )

    slots = ConnectionSlots(MAX_CONNECTIONS, beside=HTTP_STRANGERS)
    await accept_forever(listener, serve, slots)


def _announce(listener: Listener, options: LogServeOptions, *, as_json: bool) -> None:
    host, port = listener.address.host, listener.address.port
    scheme = "http" if options.keystore is None else "https"
    url = f"{scheme}://{url_host(host or socket.gethostname())}:{port}"
    if host not in _LOOPBACK and options.token_file is None:
        _log.warning("any client that reaches this port can use the log: give --token-file FILE")
    if host not in _LOOPBACK and options.keystore is None:
        _log.warning("the log's entries and the token travel without TLS: give --keystore FILE")
    if as_json:
        print(json.dumps({"url": url}), flush=True)
        return
    what = shown_log(options.url)
    how = f"{url}?token-file={options.token_file}" if options.token_file else url
    print(f"{what} is served; gateways use it with --set 'metadata.log={how}'", flush=True)
