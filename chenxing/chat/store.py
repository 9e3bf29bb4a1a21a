"""Compiled templates on disk, so that each is compiled once: 10 ms for a short one, 110 ms for the longest in use.

A file is a SHA-256 and marshalled code. Whatever is wrong with it, the template is compiled again (law L5).
"""

import hashlib
import marshal
import os
import sys
import tempfile
from pathlib import Path

import jinja2

from chenxing.chat.metering import Facts
from chenxing.chat.program import Program, compile_program


def load_program(source: str, folder: Path) -> Program:
    """The compiled template, from `folder` if it is there, else compiled and put there.

    Raises TemplateError if it does not compile. A folder that cannot be read or written costs only time.
    """
    key = _key(source)
    path = folder / f"{key.hex()}.template"
    program = _read(path, key)
    if program is None:
        program = compile_program(source)
        _write(path, key, program)
    return program


def _key(source: str) -> bytes:
    """Of everything that the code depends on: the template, jinja2, Python, and how metering.py rewrites the tree."""
    parts = [source.encode(errors="surrogatepass"), jinja2.__version__.encode(), sys.version.encode(), _own_source()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _own_source() -> bytes:
    try:
        return b"".join(Path(__file__).with_name(name).read_bytes() for name in ("environment.py", "metering.py"))
    except OSError:  # a frozen application carries no sources, but each version of it is an executable of its own
        status = os.stat(sys.executable)
        return f"{status.st_size} {status.st_mtime_ns}".encode()


def _read(path: Path, key: bytes) -> Program | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, payload = data[:32], data[32:]
    if hashlib.sha256(key + payload).digest() != digest:  # marshal itself must never see a damaged file
        return None
    code, strings, keys, sought = marshal.loads(payload)
    return Program(code, Facts(strings, keys, sought))


def _write(path: Path, key: bytes, program: Program) -> None:
    facts = program.facts
    payload = marshal.dumps((program.code, facts.strings, facts.keys, facts.sought))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(key + payload).digest() + payload)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
    except OSError:  # full, read-only, or in use: then it is compiled again next time
        return
