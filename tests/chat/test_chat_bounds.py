"""The meter: what costs, and when it stops."""

import time

import pytest

from chenxing.chat.bounds import BASE_UNITS, CLOCK_EVERY, STEP, UNITS_PER_INPUT, Meter, TemplateLimitError


def test_the_budget_grows_with_the_input():
    assert Meter(0).left == BASE_UNITS
    assert Meter(1000).left == BASE_UNITS + 1000 * UNITS_PER_INPUT


def test_spending_more_than_there_is_stops():
    meter = Meter(0)
    meter.spend(BASE_UNITS)
    with pytest.raises(TemplateLimitError, match="too much text or loops too often"):
        meter.spend(1)


def test_the_clock_stops_what_units_do_not_describe():
    meter = Meter(0, seconds=0.0)
    time.sleep(0.001)
    sum(range(10_000))  # processor time of this thread, which sleeping is not
    with pytest.raises(TemplateLimitError, match=r"after 0\.0 s"):
        meter.spend(CLOCK_EVERY + 1)


def test_waiting_is_not_counted():
    meter = Meter(0, seconds=0.05)
    time.sleep(0.1)
    meter.spend(CLOCK_EVERY + 1)


def test_size_counts_characters_and_elements():
    meter = Meter(0)
    assert meter.size("four") == 4
    assert meter.size(["a", "bc"]) == STEP + 3
    assert meter.size({"key": [1, None]}) == 2 * STEP + len("key") + 2 * STEP


def test_size_of_a_list_that_is_small_in_memory_and_endless_on_paper():
    value: list = ["x"]
    for _ in range(60):
        value = [value, value]
    start = time.thread_time()
    with pytest.raises(TemplateLimitError, match="too large a value"):
        Meter(0).size(value)
    assert time.thread_time() - start < 2.0  # the walk ends at the budget, not at 2**60
