"""The checks of `tidegate doctor` on this machine: are its ports free, are its folders writable?

If a gateway runs on the data folder, ports in use and a locked disk cache are no errors, since this
gateway uses them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tidegate_protocol.record_walk import IS_COMPILED
from tidegate_runtime.addresses import ListenerAddress, host_port
from tidegate_runtime.listening import CannotListen, PortInUse, bind_listener
from tidegate_runtime.settings_texts import SettingsError

from ..instance import LOCK_FILE, is_held, runs_on
from ..peers.peer_listener import open_to_anyone, peer_address
from ..settings.broker_settings import BrokerSettings
from ..settings.inner_listeners import refuse_token_in_clear
from ..settings.listener_settings import (
    advertised_endpoints,
    controller_listeners,
    listen_addresses,
    refuse_open_listeners,
)
from ..tls.tls_listener import day_of
from ..tls.tls_listeners import open_tls_listeners
from ..work.blocking import Inline
from .doctor_security import security_findings
from .findings import Checked, Report


def check_machine(settings: BrokerSettings, data: Path | None, note: Report) -> None:
    """Check ports and folders; create missing folders."""
    note(_walk(is_compiled=IS_COMPILED))
    runs = data is not None and runs_on(data)
    if runs:
        what = f"the gateway of {data} runs; ports in use are assumed to be its own"
        note(Checked("data folder", what, True))
    _check_listeners(settings, note, runs=runs)
    if data is not None:
        note(_folder("data folder", data, "choose another with --data"))
    if settings.text("disk.cache.dir") and settings.int("disk.cache.max.bytes"):
        note(_cache_folder(Path(settings.text("disk.cache.dir")), runs=runs))


def _walk(*, is_compiled: bool) -> Checked:
    """Report whether compiled code walks produced records; Python code is the slower fallback."""
    if is_compiled:
        return Checked("record walk", "is compiled", True)
    what = "is plain Python, for this Python the wheel has no compiled one"
    advice = "install from a clone where a C compiler is, or expect producers to take more CPU"
    return Checked("record walk", what, True, advice)


def _check_listeners(settings: BrokerSettings, note: Report, *, runs: bool) -> None:
    try:
        addresses = list(listen_addresses(settings))
        refuse_open_listeners(settings, addresses)
        refuse_token_in_clear(settings)
        advertised_endpoints(settings, addresses, "localhost")
        clients = tuple(addresses)
        admin = settings.text("admin.listener")
        if admin:
            addresses.append(ListenerAddress("ADMIN", *host_port("admin.listener", admin)))
    except SettingsError as error:
        note(Checked("listeners", "can be read", False, str(error)))
        return
    _check_tls(settings, [each.name for each in addresses], note)
    for finding in security_findings(settings, clients):
        note(finding)
    for name in controller_listeners(settings):
        what = f"{name} is not served: a gateway has no controller (controller.listener.names)"
        note(Checked("listeners", what, True))
    for each in addresses:
        _check_port(each, note, runs=runs)
    _check_peers(settings, note, runs=runs)


def _check_tls(settings: BrokerSettings, names: Sequence[str], note: Report) -> None:
    """Read the stores of listeners with TLS, as a start does."""
    try:
        opened = open_tls_listeners(settings, names, time.time, Inline())
    except SettingsError as error:
        note(Checked("TLS", "keys and certificates can be used", False, str(error)))
        return
    for each in opened:
        problem = next(iter(each.problems(time.time())), "")
        what = f"{each.name} has certificates until {day_of(each.current.expires_at)}"
        note(Checked("TLS", what, not problem, problem))


def _check_peers(settings: BrokerSettings, note: Report, *, runs: bool) -> None:
    try:
        if (address := peer_address(settings)) is None:
            return
        danger = open_to_anyone(settings)
    except SettingsError as error:
        note(Checked("peer listener", "can be read", False, str(error)))
        return
    _check_port(address, note, runs=runs)
    what = "only gateways of this cluster are answered"
    note(Checked("peer listener", what, not danger, danger))


def _check_port(address: ListenerAddress, note: Report, *, runs: bool) -> None:
    what = f"port {address.port} of {address.name} is free"
    try:
        bind_listener(address).close()
    except CannotListen as error:
        if runs and isinstance(error, PortInUse):
            return
        advice = f"{error}; stop what listens there, or choose another port"
        note(Checked("listeners", what, False, advice))
        return
    note(Checked("listeners", what, True))


def _cache_folder(path: Path, *, runs: bool) -> Checked:
    if not runs and is_held(path / LOCK_FILE):
        advice = "another gateway uses it; give each a disk.cache.dir of its own"
        return Checked("disk cache", f"{path} is free", False, advice)
    advice = "nothing would be cached on disk; choose another disk.cache.dir"
    return _folder("disk cache", path, advice, mode=0o700)


def _folder(area: str, path: Path, advice: str, mode: int = 0o777) -> Checked:
    what = f"{path} can be written"
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"tidegate")
    except OSError as error:
        return Checked(area, what, False, f"{error.strerror}; {advice}")
    return Checked(area, what, True)
