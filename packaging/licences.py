"""The licence texts of everything that a desktop build contains, collected into one folder.

licenses/
  chenxing.txt, python.txt
  NAME-VERSION/...      of every distribution whose modules or libraries are in the build
  system/NAME.txt       of shared libraries of the machine that built it (Debian keeps their texts)
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

_LICENCE = re.compile(r"(licen[cs]e|copying|copyright|notice)", re.IGNORECASE)


def collect(names: Iterable[str], libraries: Iterable[Path], folder: Path, own: Path) -> list[str]:
    """Writes `folder`. names: top-level modules in the build; libraries: shared ones. -> what no text was found for."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(own, folder / "chenxing.txt")
    shutil.copyfile(_python_licence(), folder / "python.txt")
    owners = metadata.packages_distributions()
    # a library's own top-level folder, such as numpy.libs, belongs to its package
    found = {owner for name in names for owner in owners.get(name.removesuffix(".libs"), ())}
    missing = [name for name in sorted(found - {"chenxing"}) if not _copy(metadata.distribution(name), folder)]
    return missing + _system_licences(libraries, folder / "system")


def _copy(distribution: metadata.Distribution, folder: Path) -> int:
    """The number of texts; where the package has none in files, what its metadata says."""
    target = folder / f"{distribution.name}-{distribution.version}"
    files = [f for f in distribution.files or () if _LICENCE.search(f.name) and f.suffix not in (".py", ".pyc")]
    for file in files:
        source = Path(str(distribution.locate_file(file)))
        path = target / "-".join(file.parts[-2:] if file.parent.name == "licenses" else (file.name,))
        if path.exists():
            path = target / "-".join(file.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    said = distribution.metadata.get("License-Expression") or distribution.metadata.get("License")
    if not files and said:
        target.mkdir(parents=True)
        home = distribution.metadata.get("Home-page") or distribution.metadata.get_all("Project-URL") or ""
        (target / "METADATA.txt").write_text(f"{distribution.name}: {said}\n{home}\n", encoding="utf-8")
    return len(files) + bool(said)


def _python_licence() -> Path:
    places = [Path(sysconfig.get_path("stdlib")), Path(sys.base_prefix), Path(sys.base_prefix) / "Resources"]
    places += [Path(f"/usr/share/doc/python{sys.version_info[0]}.{sys.version_info[1]}")]
    for place in places:
        for name in ("LICENSE.txt", "LICENSE", "copyright"):
            if (place / name).is_file():
                return place / name
    raise SystemExit(f"no licence of Python in {', '.join(map(str, places))}")


def _system_licences(libraries: Iterable[Path], folder: Path) -> list[str]:
    """Texts of Debian's packages that own these libraries; elsewhere Python brings its libraries along."""
    ours = (sys.prefix, sys.base_prefix)
    outside = [lib for lib in libraries if not any(lib.is_relative_to(place) for place in ours)]
    if not shutil.which("dpkg"):
        return []
    missing = []
    for library in outside:
        # dpkg knows /lib or /usr/lib, whichever the package was built with
        paths = {str(library), str(library.resolve()), str(library.resolve()).removeprefix("/usr")}
        said = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True).stdout
        package = said.partition(":")[0]
        text = Path("/usr/share/doc") / package / "copyright"
        if not package or not text.is_file():
            missing.append(str(library))
            continue
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(text, folder / f"{package}.txt")
    return missing
