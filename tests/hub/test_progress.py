from chenxing.hub.progress import Meter


def test_fractions_start_at_0_end_at_1_and_are_few():
    seen = []
    meter = Meter("download", 1_000_000, lambda stage, fraction: seen.append((stage, fraction)))
    for _ in range(100_000):
        meter.add(10)
    assert seen[0] == ("download", 0.0)
    assert seen[-1] == ("download", 1.0)
    assert 900 < len(seen) < 1100
    assert [fraction for _, fraction in seen] == sorted(fraction for _, fraction in seen)


def test_parts_of_a_stage_and_going_back():
    seen = []
    meter = Meter("download", 2000, lambda _, fraction: seen.append(fraction))
    meter.follow(1000, 1000)(0.5)
    meter.follow(1000)(0)
    meter.set(9999)
    assert seen == [0, 0.75, 0.5, 1.0]


def test_nobody_has_to_listen():
    Meter("verify", 0, None).add(1)
