"""Builds the desktop program for the system that runs this: `python packaging/build.py`.

    pip install '.[desktop]' && python packaging/build.py

makes dist/chenxing/, a folder that runs without Python, and dist/chenxing-VERSION-SYSTEM-MACHINE.tar.gz (.zip on
Windows) of it. `packaging/smoke.py` tries the folder.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK, DIST = ROOT / "build" / "desktop", ROOT / "dist"
PROGRAM = DIST / "chenxing"
LAUNCHERS = {
    "linux": ("chenxing.desktop", "[Desktop Entry]\nType=Application\nName=chenxing\nTerminal=true\nExec={command}\n"),
    "darwin": ("chenxing.command", "#!/bin/sh\n{command}\n"),
}
"""What a double click opens in a terminal window. Windows opens one for the program itself."""
_IN_ITS_FOLDER = {
    "linux": """sh -c '"$(dirname "$1")"/chenxing app || read -r _' sh %k""",
    "darwin": """"$(dirname "$0")"/chenxing app""",
}


def build_id() -> str:
    """Digest of the package's sources: what `chenxing --version` tells of a build."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "chenxing").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def version() -> str:
    """The package's, without importing what is being built."""
    file = (
        ROOT / tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["version"]["path"]
    )
    line = next(line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("__version__"))
    return line.split('"')[1]


def build() -> Path:
    """The folder with the program."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "BUILD").write_text(build_id(), encoding="ascii")
    arguments = ["--noconfirm", "--distpath", DIST, "--workpath", WORK.parent, ROOT / "packaging" / "desktop.spec"]
    subprocess.run([sys.executable, "-m", "PyInstaller", *map(str, arguments)], check=True, cwd=ROOT)
    shutil.copytree(PROGRAM / "_internal" / "licenses", PROGRAM / "licenses", dirs_exist_ok=True)
    shutil.rmtree(PROGRAM / "_internal" / "licenses")
    if launcher := LAUNCHERS.get(sys.platform):
        name, text = launcher
        (PROGRAM / name).write_text(text.format(command=_IN_ITS_FOLDER[sys.platform]), encoding="ascii")
        (PROGRAM / name).chmod(0o755)
    return PROGRAM


def archive(folder: Path) -> Path:
    """One file of the folder, beside it."""
    name = f"chenxing-{version()}-{platform.system()}-{platform.machine()}".lower()
    kind = "zip" if sys.platform == "win32" else "gztar"
    return Path(shutil.make_archive(str(DIST / name), kind, folder.parent, folder.name))


def main() -> None:
    folder = build()
    packed = archive(folder)
    unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{folder}: {unpacked / 1e6:.0f} MB\n{packed}: {packed.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
