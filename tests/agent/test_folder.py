"""No way out of the folder: by names, links, special files, or what changes meanwhile."""

import os
import shutil

import pytest

from chenxing.agent.tools import ToolError
from chenxing.agent.tools import folder as folder_module
from chenxing.agent.tools.folder import MAX_READ_BYTES, CheckedFolder, Entry, OpenatFolder, names_of, open_folder
from chenxing.errors import AgentError

KINDS = [CheckedFolder] + [OpenatFolder] * (os.name == "posix")
links = pytest.mark.skipif(os.name != "posix", reason="making links needs a privilege on Windows")


@pytest.fixture
def place(tmp_path):
    """A folder `in` with a file, and a secret beside it."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("A")
    (tmp_path / "in" / "sub" / "b.txt").write_text("B")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "in-side").mkdir()
    return tmp_path.resolve()


@pytest.fixture(params=KINDS)
def folder(request, place):
    return request.param(place / "in")


def test_read_list_and_write(folder, place):
    assert folder.read("a.txt") == b"A" and folder.read("./sub//b.txt") == b"B"
    assert folder.entries("") == [Entry("a.txt", "file", 1), Entry("sub", "folder", 0)]
    assert folder.entries("sub") == [Entry("sub/b.txt", "file", 1)]
    folder.write("new/deep/c.txt", b"C")
    folder.write("a.txt", b"AA")
    assert (place / "in/new/deep/c.txt").read_bytes() == b"C" and folder.read("a.txt") == b"AA"
    assert not [p for p in (place / "in").rglob("*") if p.name.endswith(".tmp")]
    assert folder.exists("a.txt") and not folder.exists("b.txt") and not folder.exists("no/b.txt")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "sub/../../secret.txt",
        "sub/..",
        "..",
        "/etc/passwd",
        "\\windows",
        "..\\secret.txt",
        "C:/secret.txt",
        "C:secret.txt",
        "~/secret.txt",
        "a.txt\0",
        "a" * 5000,
    ],
)
def test_paths_that_lead_out(folder, path):
    for act in (folder.read, folder.entries, folder.exists, lambda path: folder.write(path, b"x")):
        with pytest.raises(ToolError, match="expected a path"):
            act(path)


def test_a_folder_whose_name_begins_alike_is_outside(folder, place):
    with pytest.raises(ToolError):
        folder.read("../in-side/x")


@links
def test_links_are_not_followed(folder, place):
    root = place / "in"
    (root / "out.txt").symlink_to(place / "secret.txt")
    (root / "inner.txt").symlink_to(root / "a.txt")
    (root / "up").symlink_to(place)
    (root / "dangling").symlink_to(place / "made.txt")
    for path in ("out.txt", "inner.txt", "up/secret.txt", "dangling", "up"):
        with pytest.raises(ToolError, match="link"):
            folder.read(path)
        with pytest.raises(ToolError, match="link"):
            folder.write(path, b"x")
    with pytest.raises(ToolError, match="link"):
        folder.entries("up")
    with pytest.raises(ToolError, match="link"):
        folder.write("up/new.txt", b"x")
    assert (place / "secret.txt").read_text() == "secret" and not (place / "made.txt").exists()
    assert not (place / "new.txt").exists()
    assert {entry.kind for entry in folder.entries("") if entry.path in ("out.txt", "inner.txt", "up")} == {"other"}


@links
def test_special_files_are_not_opened(folder, place):
    os.mkfifo(place / "in" / "pipe")
    for path in ("pipe", "sub"):
        with pytest.raises(ToolError, match="is no file"):
            folder.read(path)
        with pytest.raises(ToolError, match="is no file"):
            folder.write(path, b"x")


def test_sizes(folder, place):
    (place / "in" / "big").write_bytes(b"x" * (MAX_READ_BYTES + 1))
    with pytest.raises(ToolError, match="at most"):
        folder.read("big")
    with pytest.raises(ToolError, match="at most"):
        folder.write("bigger", b"x" * (2 << 20))


def test_what_is_not_there(folder):
    for act in (folder.read, folder.entries):
        with pytest.raises(ToolError, match="no such file"):
            act("nothing/here")
    with pytest.raises(ToolError, match=r"link or a file|Not a directory|no such"):
        folder.read("a.txt/x")
    for path in ("", "."):
        with pytest.raises(ToolError, match="expected a file's name"):
            folder.read(path)


@links
def test_a_folder_that_becomes_a_link_while_it_is_walked(place, monkeypatch):
    """The moment between two steps of the walk: what was opened stays what it was."""
    folder = OpenatFolder(place / "in")
    real_open, swapped = os.open, []

    def swapping(path, *args, **kwargs):
        fd = real_open(path, *args, **kwargs)
        if path == "sub" and not swapped:
            swapped.append(1)
            shutil.move(place / "in" / "sub", place / "moved")
            (place / "in" / "sub").symlink_to(place)
            (place / "b.txt").write_text("outside")
        return fd

    monkeypatch.setattr(os, "open", swapping)
    assert folder.read("sub/b.txt") == b"B" and swapped


@links
def test_a_file_that_becomes_a_link_after_it_was_checked(place, monkeypatch):
    target = place / "in" / "a.txt"

    def swap():
        if not target.is_symlink():
            target.unlink()
            target.symlink_to(place / "secret.txt")

    real_stat = os.stat

    def stat_then_swap(path, *args, **kwargs):
        found = real_stat(path, *args, **kwargs)
        if path == "a.txt":
            swap()
        return found

    def swap_then_open(path, *args, **kwargs):
        swap()
        return open(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", stat_then_swap)
    with pytest.raises(ToolError, match="link"):
        OpenatFolder(place / "in").read("a.txt")
    monkeypatch.undo()
    target.unlink()
    target.write_text("A")
    monkeypatch.setattr(folder_module, "open", swap_then_open, raising=False)
    with pytest.raises(ToolError, match="exchanged"):
        CheckedFolder(place / "in").read("a.txt")


@links
def test_writing_replaces_a_hard_link_and_keeps_permissions(place):
    folder = open_folder(place / "in")
    os.link(place / "secret.txt", place / "in" / "hard.txt")
    (place / "in" / "a.txt").chmod(0o640)
    folder.write("hard.txt", b"mine")
    folder.write("a.txt", b"mine")
    assert (place / "secret.txt").read_text() == "secret"
    assert (place / "in" / "a.txt").stat().st_mode & 0o777 == 0o640


def test_names():
    assert names_of("") == names_of("./") == [] and names_of("a\\b/./c") == ["a", "b", "c"]


def test_open_folder(place):
    assert isinstance(open_folder(place / "in"), OpenatFolder if os.name == "posix" else CheckedFolder)
    with pytest.raises(AgentError, match="expected a folder"):
        open_folder(place / "secret.txt")
