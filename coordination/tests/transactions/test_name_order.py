"""Transactional ids keep the order of their creation, and are found after long disuse."""

from __future__ import annotations

from random import Random

from tidegate_coordination.state.transactions.order import BLOCK, NameOrder


def test_names_keep_their_order_whatever_is_removed() -> None:
    rng, order, numbers = Random(1), NameOrder(), dict[str, int]()
    for number in range(5 * BLOCK):
        name = f"id-{number}"
        numbers[name] = order.add(name, 0)
        if rng.random() < 0.4:
            gone = rng.choice(list(numbers)[-50:])
            order.remove(numbers.pop(gone))
            if rng.random() < 0.5:
                numbers[gone] = order.add(gone, 0)
    assert list(order.names()) == list(numbers)


def test_names_are_those_of_the_moment() -> None:
    order = NameOrder()
    numbers = [order.add(f"id-{number}", 0) for number in range(BLOCK + 2)]
    expected = [f"id-{number}" for number in range(BLOCK + 2)]
    names = order.names()
    first = next(names)
    order.add("later", 0)
    for number in numbers:
        order.remove(number)
    assert [first, *names] == expected
    assert list(order.names()) == ["later"]


def test_names_that_are_gone_take_no_memory() -> None:
    order = NameOrder()
    for number in range(10 * BLOCK):
        order.remove(order.add(f"id-{number}", 0))
    assert list(order.names()) == []
    assert len(order._blocks) == 0


def test_unused_names_are_found_without_a_look_at_the_others() -> None:
    order, used, looks = NameOrder(), dict[str, int](), list[str]()

    def used_ms(name: str) -> int:
        looks.append(name)
        return used[name]

    for number in range(3 * BLOCK):
        used[f"id-{number}"] = 1_000 + number
        order.add(f"id-{number}", 1_000 + number)
    assert list(order.idle(1_000, used_ms)) == []
    assert not looks
    assert list(order.idle(1_002, used_ms)) == ["id-0", "id-1"]
    assert len(looks) == BLOCK
    used["id-0"] = used["id-1"] = 9_000
    assert list(order.idle(1_003, used_ms)) == ["id-2"]
    used["id-2"] = 9_000
    # it looks at the block, and notes that no name is idle
    assert list(order.idle(1_003, used_ms)) == []
    looks.clear()
    assert list(order.idle(1_003, used_ms)) == []
    assert not looks


def test_a_name_of_a_snapshot_is_found_by_its_own_time() -> None:
    order = NameOrder()
    used = {"young": 50, "old": 7}
    for name, each in used.items():
        order.add(name, each)
    assert list(order.idle(10, used.__getitem__)) == ["old"]
