"""How often an object store fails in a run, and how."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """Rates from 0 to 1, each a share of the calls that it can strike.

    lost_put        not done, and answered with StoreUnavailable
    ambiguous_put   done, and answered with StoreUnavailable
    late_put        answered with StoreUnavailable, and done up to late_seconds later
    read_error      get, get_range and list answer with StoreUnavailable
    truncated_get   a get or get_range answers with the first part only
    flipped_bit     a get or get_range answers with one bit wrong
    missing_object  a get or get_range of an object that exists answers with NoSuchObject
    delete_error    delete_many answers with StoreUnavailable, done in part
    throttled       from this call on all are refused, for up to slow_seconds
    slow            a call takes up to slow_seconds more, before or after its effect
    hung            a call takes half a minute and is then answered with StoreUnavailable, not done
    outage          any call is answered with StoreUnavailable, not done

    refused: the kinds of calls that are refused, of put, get, list and delete.
    """

    lost_put: float = 0.0
    ambiguous_put: float = 0.0
    late_put: float = 0.0
    read_error: float = 0.0
    truncated_get: float = 0.0
    flipped_bit: float = 0.0
    missing_object: float = 0.0
    delete_error: float = 0.0
    throttled: float = 0.0
    slow: float = 0.0
    hung: float = 0.0
    outage: float = 0.0
    slow_seconds: float = 5.0
    late_seconds: float = 20.0
    refused: frozenset[str] = frozenset()
