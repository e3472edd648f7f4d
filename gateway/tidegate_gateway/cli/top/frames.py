"""Reads the pages of all gateways, for one frame.

Each address has FRAME_SECONDS for all its pages.  An address that takes longer is shown as not
answering.  It is asked again only after its last request has ended.  A supervisor
(processes/pages.py) returns the pages of several gateways.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final, TypeVar, cast

from tidegate_runtime.addresses import url_host

from ..admin_reader import Access, AdminReader, NoAnswer, Place
from .samples import Samples, of_label, read_samples

FRAME_SECONDS: Final = 1.0
_BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
OF_GATEWAY: Final = frozenset(
    {
        _BYTES_IN,
        "kafka_server_brokertopicmetrics_bytesout_total",
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_network_requestmetrics_requests_total",
        "kafka_network_requestmetrics_totaltimems",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    }
)
_LATE: Final = "{} does not answer in time"
_OF_STATUS: Final = frozenset({"ready", "state", "node_id", "connections"})
_OTHER_PAGE: Final = "{} shows no page of a gateway, or of several under a supervisor"
_PROCESS: Final = "process"
PARTITIONS: Final = "kafka_topic_partitions"
OF_CLUSTER: Final = frozenset(
    {
        PARTITIONS,
        "kafka_consumergroup_members",
        "kafka_consumergroup_lag_sum",
        "tidegate_group_lag_seconds",
        "tidegate_group_retention_used_ratio",
        "tidegate_group_beyond_end_offsets",
    }
)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one gateway at one moment.

    admin: the gateway's address; under a supervisor, the supervisor's address and the process.
    read_at: seconds of a monotonic clock.  problem: why the gateway did not answer, or "".  status:
    the last answer of /v1/status.  cost: /v1/cost; empty while the gateway starts.
    """

    admin: str
    read_at: float
    problem: str = ""
    status: Mapping[str, Any] = field(default_factory=dict[str, Any])
    samples: Samples = field(default_factory=Samples)
    cost: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Frame:
    """The pages of all gateways at one moment.

    gateways: in the order of their addresses.  cluster: metrics of partitions and groups; empty if
    no gateway gave them.

    time_ms: wall clock.
    """

    time_ms: int
    gateways: Sequence[Pages]
    cluster: Samples


class FrameReader:
    """See the module's head.

    Raises:
      SettingsError: a file of `access` cannot be read.
    """

    def __init__(
        self, places: Sequence[Place], access: Access, frame_seconds: float = FRAME_SECONDS
    ) -> None:
        self._reader = AdminReader(access, answer_seconds=frame_seconds)
        self._frame_seconds = frame_seconds
        self._places = places
        self._asking: dict[Place, Thread] = {}
        self._known: dict[Place, dict[str, Mapping[str, Any]]] = {}

    def read(self) -> Frame:
        """Return a frame from the pages of all gateways, which are asked at once."""
        answers = self._all(self._places, self._pages)
        found = {
            each: answers.get(each) or self._silent(each, _LATE.format(_name(each)))
            for each in self._places
        }
        for place, pages in found.items():
            self._known[place] = {each.admin: each.status for each in pages}
        gateways = [each for pages in found.values() for each in pages]
        cluster = next((p.samples for p in gateways if PARTITIONS in p.samples), None)
        if cluster is None:
            cluster = self._cluster(found)
        return Frame(round(time.time() * 1000), gateways, cluster)

    def _cluster(self, found: Mapping[Place, Sequence[Pages]]) -> Samples:
        """Ask one gateway for the cluster's metrics: /metrics has them only at the controller."""
        ready = (
            place
            for place, pages in found.items()
            if any(each.status.get("ready") and not each.problem for each in pages)
        )
        asked = [place for place in ready][:1]
        answers = self._all(asked, self._cluster_samples)
        return answers[asked[0]] if answers else {}

    def _all(self, places: Sequence[Place], ask: Callable[[Place], Answer]) -> dict[Place, Answer]:
        """Return the answers that come in time."""
        found: dict[Place, Answer] = {}

        def work(place: Place) -> None:
            found[place] = ask(place)

        for each in places:
            before = self._asking.get(each)
            if before is None or not before.is_alive():
                # A daemon thread: a gateway that does not answer must not delay the command's end.
                self._asking[each] = Thread(target=work, args=(each,), daemon=True)
                self._asking[each].start()
        until = time.monotonic() + self._frame_seconds
        for each in places:
            self._asking[each].join(max(until - time.monotonic(), 0.0))
        return dict(found)

    def _pages(self, place: Place) -> list[Pages]:
        try:
            found = self._reader.read_json(place, "/v1/status")
            status = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
            of_processes = status.get("processes")
            is_one = status.keys() >= _OF_STATUS
            if not is_one and not isinstance(of_processes, dict):
                return self._silent(place, _OTHER_PAGE.format(_name(place)))
            text = self._reader.read(place, "/metrics").decode()
            at = time.monotonic()
            cost: Mapping[str, Any] = {}
            if not is_one or status["ready"]:
                cost = self._reader.read_json(place, "/v1/cost")
        except (NoAnswer, UnicodeDecodeError) as error:
            return self._silent(place, str(error))
        samples = read_samples(text, OF_GATEWAY | OF_CLUSTER)
        if is_one:
            return [Pages(_name(place), at, "", status, samples, cost)]
        statuses = cast("dict[str, Any]", of_processes)
        return self._of_processes(place, at, statuses, samples, cost.get("processes", {}))

    def _of_processes(
        self,
        place: Place,
        at: float,
        statuses: Mapping[str, Any],
        samples: Samples,
        costs: Mapping[str, Any],
    ) -> list[Pages]:
        """Return the pages of the gateways under a supervisor; statuses, costs: by process."""
        known, found = self._known.get(place, {}), list[Pages]()
        for process, status in statuses.items():
            name = f"{_name(place)} process {process}"
            own = of_label(samples, _PROCESS, process)
            if status is None or not own:
                problem = f"process {process} of {_name(place)} does not answer"
                found.append(Pages(name, at, problem, known.get(name, {})))
            else:
                found.append(Pages(name, at, "", status, own, costs.get(process) or {}))
        return found

    def _silent(self, place: Place, problem: str) -> list[Pages]:
        known = self._known.get(place) or {_name(place): {}}
        at = time.monotonic()
        return [Pages(name, at, problem, status) for name, status in known.items()]

    def _cluster_samples(self, place: Place) -> Samples:
        try:
            return read_samples(self._reader.read(place, "/metrics/cluster").decode(), OF_CLUSTER)
        except (NoAnswer, UnicodeDecodeError):
            return {}


def _name(place: Place) -> str:
    return f"{url_host(place[0])}:{place[1]}"
