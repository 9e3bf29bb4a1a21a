"""Who may end a step before its time, and when."""

import threading

from engine.fake_model import prompt, request

from chenxing.engine.running_step import RunningStep
from chenxing.kernels.cut import Cut


def test_only_when_all_are_cancelled_whom_it_serves() -> None:
    cut = Cut()
    running, (a, b) = RunningStep(cut), (request(prompt(5)), request(prompt(5)))
    a.on_cancel = b.on_cancel = running.look
    running.begin([a, b])
    a.cancel()
    assert not cut.is_set
    b.cancel()
    assert cut.is_set
    running.end()
    assert not cut.is_set


def test_who_was_cancelled_before_it_began_is_seen() -> None:
    cut = Cut()
    running, a = RunningStep(cut), request(prompt(5))
    a.cancel()
    running.begin([a])
    assert cut.is_set


def test_who_is_cancelled_between_steps_ends_none() -> None:
    cut = Cut()
    running, (a, b) = RunningStep(cut), (request(prompt(5)), request(prompt(5)))
    a.on_cancel = running.look
    running.begin([a])
    running.end()
    a.cancel()
    assert not cut.is_set
    running.begin([b])
    assert not cut.is_set
    running.look()
    assert not cut.is_set


def test_a_stop_ends_all_until_they_may_run_again() -> None:
    cut = Cut()
    running, a = RunningStep(cut), request(prompt(5))
    running.stop()
    assert not cut.is_set  # there is none, and by-standers of the model are not meant
    running.begin([a])
    assert cut.is_set
    running.end()
    running.resume()
    running.begin([a])
    assert not cut.is_set
    running.stop()
    assert cut.is_set


def test_no_cancel_is_lost_between_a_plan_and_its_step() -> None:
    """Each step begins while its request is being cancelled: one of the two sees the other."""
    cut = Cut()
    running, meet = RunningStep(cut), threading.Barrier(2)
    mine = [request(prompt(5), priority=i) for i in range(300)]

    def cancel_all() -> None:
        for r in mine:
            r.on_cancel = running.look
            meet.wait(30)
            r.cancel()
            meet.wait(30)

    thread = threading.Thread(target=cancel_all)
    thread.start()
    for r in mine:
        meet.wait(30)
        running.begin([r])
        meet.wait(30)
        assert cut.is_set
        running.end()
    thread.join()
