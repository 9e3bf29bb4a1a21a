"""The number of threads, from made-up /proc and /sys trees, and from what macOS and Windows would answer."""

import struct
from pathlib import Path

import pytest

from chenxing import cores as cores_module
from chenxing.cgroups import cpu_quota
from chenxing.cores import Cores, cpu_list, linux_cores, windows_cores


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def siblings(pairs: dict[int, str]) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": text for cpu, text in pairs.items()}


def test_cpus_that_share_a_core_count_once(tmp_path):
    put(tmp_path, siblings({0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}))
    found = linux_cores(tmp_path, 8, range(8))
    assert (found.n_threads, found.why) == (4, "4 physical cores")
    found = linux_cores(tmp_path, 8, [0, 1, 4])
    assert (found.n_threads, found.why) == (2, "2 physical cores, affinity allows 3 of 8 CPUs")


def test_without_a_topology_every_cpu_is_a_core(tmp_path):
    assert linux_cores(tmp_path, 3, range(3)) == Cores(3, 3, 3, 3, None)


def test_intel_names_its_performance_cores(tmp_path):
    put(tmp_path, siblings({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", 4: "4", 5: "5", 6: "6", 7: "7"}))
    put(tmp_path, {"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"})
    found = linux_cores(tmp_path, 8, range(8))
    assert (found.n_threads, found.why) == (2, "2 performance cores of 6 physical ones")
    assert linux_cores(tmp_path, 8, [4, 5, 6]).n_threads == 3  # confined to slow ones: all of those


def test_arm_gives_capacities(tmp_path):
    capacities = [290, 290, 290, 290, 871, 871, 1024, 1024]
    put(tmp_path, {f"sys/devices/system/cpu/cpu{i}/cpu_capacity": str(c) for i, c in enumerate(capacities)})
    assert linux_cores(tmp_path, 8, range(8)).performance == 4


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "250000 100000"}, 2.5),
        (  # the tightest of the nested groups
            {
                "proc/self/cgroup": "0::/a.slice/b.scope",
                "sys/fs/cgroup/a.slice/cpu.max": "150000 100000",
                "sys/fs/cgroup/a.slice/b.scope/cpu.max": "800000 100000",
            },
            1.5,
        ),
        (  # in a container: the path is the host's, the mount begins at the group
            {"proc/self/cgroup": "0::/docker/abc", "sys/fs/cgroup/cpu.max": "200000 100000"},
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/box\n0::/",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        ({"proc/self/cgroup": "3:memory:/x", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "1"}, None),
        ({"proc/self/cgroup": "nonsense", "sys/fs/cgroup/cpu.max": "x y z"}, None),
        ({"sys/fs/cgroup/cpu.max": "100000 0"}, None),
    ],
)
def test_the_quota_of_a_cgroup(tmp_path, files, quota):
    assert cpu_quota(put(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("quota", "n"), [("50000 100000", 1), ("199999 100000", 1), ("300000 100000", 3), ("900000 100000", 4)]
)
def test_threads_stay_within_the_quota(tmp_path, quota, n):
    put(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": quota})
    found = linux_cores(tmp_path, 4, range(4))
    assert found.n_threads == n
    assert ("quota" in found.why) == (n < 4)


def test_lists_of_cpus():
    assert cpu_list("0-3,8") == {0, 1, 2, 3, 8} and cpu_list("5") == {5}
    for text in ("", "a", "-", "1-b", ","):
        assert cpu_list(text) == set(), text


def test_windows_records_give_an_efficiency_class_for_each_core():
    def record(efficiency_class: int) -> bytes:
        return struct.pack("<IIBB38x", 0, 48, 0, efficiency_class)

    assert windows_cores(record(1) * 2 + record(0) * 4) == [1, 1, 0, 0, 0, 0]
    assert windows_cores(b"") == [] and windows_cores(record(1) + bytes(12)) == [1]


@pytest.mark.parametrize(
    ("platform", "performance", "physical"), [("darwin", 4, 10), ("win32", 2, 3), ("freebsd", 8, 8)]
)
def test_other_systems(monkeypatch, platform, performance, physical):
    monkeypatch.setattr(cores_module.sys, "platform", platform)
    monkeypatch.setattr(cores_module.os, "cpu_count", lambda: 8)
    monkeypatch.delattr(cores_module.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cores_module, "_sysctl", {"hw.physicalcpu": 10, "hw.perflevel0.physicalcpu": 4}.get)
    records = b"".join(struct.pack("<IIBB", 0, 10, 0, c) for c in (1, 1, 0))
    monkeypatch.setattr(cores_module, "_processor_information", lambda: records)
    found = cores_module.cores.__wrapped__()
    assert (found.performance, found.physical, found.logical) == (performance, physical, 8)


def test_this_machine_has_a_core():
    assert 1 <= cores_module.cores().n_threads <= cores_module.cores().logical
