"""File tools over one folder: list, read, search, write."""

from collections.abc import Iterator

from chenxing.agent.tools.folder import Entry, Folder
from chenxing.agent.tools.tool import Tool, ToolError, tool

MAX_ENTRIES = 500
MAX_LINES = 400
MAX_MATCHES = 100
MAX_SEARCHED_FILES = 5_000
MAX_SEARCHED_BYTES = 50 << 20
_LINE_CHARACTERS = 300


def file_tools(folder: Folder) -> list[Tool]:
    """All of them; only writing changes something."""

    @tool
    def list_files(path: str = "") -> str:
        """List what is in a folder.

        path  of the folder; leave it out for the top one
        """
        entries = folder.entries(path)
        lines = [_listed(entry) for entry in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            lines.append(f"[{len(entries) - MAX_ENTRIES} more]")
        return "\n".join(lines) or "the folder is empty"

    @tool
    def read_file(path: str, first_line: int = 1, n_lines: int = MAX_LINES) -> str:
        """Read a text file.

        path        of the file
        first_line  where to begin, from 1
        n_lines     how many lines at most
        """
        if first_line < 1 or n_lines < 1:
            raise ToolError("first_line and n_lines: expected 1 or more")
        lines = text_of(path, folder.read(path)).splitlines()
        shown = lines[first_line - 1 : first_line - 1 + min(n_lines, MAX_LINES)]
        if len(shown) < len(lines):
            shown.append(f"[lines {first_line} to {first_line + len(shown) - 1} of {len(lines)}]")
        return "\n".join(shown) or "the file is empty"

    @tool
    def search_files(text: str, path: str = "") -> str:
        """Find the lines of text files that contain a text, whatever its case.

        text  to be found as it stands; no pattern
        path  of the folder to search in; leave it out for all
        """
        if not text:
            raise ToolError("text: expected at least one character")
        return "\n".join(_matches(folder, path, text.casefold())) or "nothing found"

    def shown_write(path: str, content: str) -> str:
        kind = "replace" if folder.exists(path) else "make"
        n_bytes = len(content.encode("utf-8", "replace"))
        return f"{kind} the file {path!r} in {folder.root} with {n_bytes} bytes:\n{content}"

    @tool(changes=True, preview=shown_write)
    def write_file(path: str, content: str) -> str:
        """Make a text file, or replace a whole one. A person is asked first.

        path     of the file
        content  all of its text
        """
        data = content.encode("utf-8", "replace")
        folder.write(path, data)
        return f"wrote {len(data)} bytes to {path}"

    return [list_files, read_file, search_files, write_file]


def text_of(path: str, data: bytes) -> str:
    """UTF-8; bytes that are none become U+FFFD. Raises ToolError for what is no text."""
    if b"\0" in data[:8192]:
        raise ToolError(f"{path!r}: is no text file")
    return data.decode("utf-8", "replace")


def _listed(entry: Entry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.path}/"
        case "file":
            return f"{entry.path} ({entry.n_bytes} bytes)"
    return f"{entry.path} (neither file nor folder: not opened)"


def _matches(folder: Folder, path: str, wanted: str) -> Iterator[str]:
    n_matches, n_files, n_bytes = 0, 0, 0
    for entry in _files_below(folder, path):
        n_files, n_bytes = n_files + 1, n_bytes + entry.n_bytes
        if n_files > MAX_SEARCHED_FILES or n_bytes > MAX_SEARCHED_BYTES:
            yield f"[stopped after {n_files - 1} files: search in a folder further down]"
            return
        try:
            lines = text_of(entry.path, folder.read(entry.path)).splitlines()
        except ToolError:  # too large, no text, or gone
            continue
        for number, line in enumerate(lines, 1):
            if wanted in line.casefold():
                n_matches += 1
                if n_matches > MAX_MATCHES:
                    yield f"[stopped after {MAX_MATCHES} lines]"
                    return
                yield f"{entry.path}:{number}: {line.strip()[:_LINE_CHARACTERS]}"


def _files_below(folder: Folder, path: str) -> Iterator[Entry]:
    """Depth first, in the order of names; what disappears meanwhile is left out."""
    waiting = folder.entries(path)[::-1]
    while waiting:
        entry = waiting.pop()
        if entry.kind == "file":
            yield entry
        elif entry.kind == "folder":
            try:
                waiting += folder.entries(entry.path)[::-1]
            except ToolError:
                continue
