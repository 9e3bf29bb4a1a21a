from chenxing.sampling.history import History


def test_prompt_and_answer() -> None:
    history = History([5, 6])
    history.append(7)
    assert (history.n, history.n_prompt, history.n_generated) == (3, 2, 1)
    assert history.window(2).tolist() == [6, 7]


def test_windows() -> None:
    history = History([1, 2, 3])
    assert history.window(0).tolist() == []
    assert history.window(9).tolist() == history.window(-1).tolist() == [1, 2, 3]
    assert History([]).window(4).tolist() == []


def test_it_grows() -> None:
    history = History(range(100))
    for token in range(100, 2000):
        history.append(token)
    assert history.window(-1).tolist() == list(range(2000)) and history.n_generated == 1900
