"""Checkpoints of runs in one SQLite file: listed, resumed, replayed and forked.

Each step is one transaction, synced to the disk before the next step begins: a run that is killed at any moment goes on
from its last whole step. What a step did outside (a file that was written) may then be done again, so what must not be
is given a step of its own. Going on with a run only adds steps; nothing is changed or deleted but by `forget`.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from chenxing.agent.events import Checkpoint
from chenxing.errors import AgentError

_VERSION = 1
_SCHEMA = """
CREATE TABLE runs (
    run TEXT PRIMARY KEY, began REAL NOT NULL, origin TEXT, origin_step INTEGER, about TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
CREATE TABLE checkpoints (
    run TEXT NOT NULL REFERENCES runs, step INTEGER NOT NULL, saved REAL NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Run:
    """began, saved  seconds since 1970
    origin        (run, step) that it was forked from
    about         what its maker said of it
    last          its latest checkpoint
    """

    name: str
    began: float
    saved: float
    origin: tuple[str, int] | None
    about: dict[str, Any]
    last: Checkpoint


class Checkpoints:
    """path  the file, made readable for its user alone; ":memory:" for none. May be used by threads and processes.

    Every method raises AgentError for a file that is damaged or of another kind.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._lock = str(path), Lock()
        if self._path != ":memory:":
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise AgentError(f"{path}: {error.strerror}: expected a file for checkpoints") from error
        with self._errors():
            self._db = sqlite3.connect(self._path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
        self._make()

    def save(self, at: Checkpoint) -> None:
        """Add a step to its run. The same step may be saved again.

        Raises AgentError if the run has another one in its place: somebody else went on with it.
        """
        try:
            data = msgspec.json.encode(at).decode()
        except (TypeError, ValueError) as error:
            what = f"run {at.run!r}, step {at.step}: a question or an answer cannot be stored as JSON"
            raise AgentError(f"{what}: {error}") from error
        with self._transaction():
            now = time.time()
            self._db.execute("INSERT OR IGNORE INTO runs (run, began) VALUES (?, ?)", (at.run, now))
            there = self._db.execute("SELECT data FROM checkpoints WHERE run = ? AND step = ?", (at.run, at.step))
            row = there.fetchone()
            if row is None:
                self._db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", (at.run, at.step, now, data))
            elif row[0] != data:
                raise AgentError(
                    f"run {at.run!r} already has another step {at.step}: it was continued elsewhere, "
                    "or is to be continued from an earlier step; fork it for that"
                )

    def describe(self, run: str, about: dict[str, Any]) -> None:
        """Keep something about a run, JSON data, which `runs` shows."""
        text = msgspec.json.encode(about).decode()
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO runs (run, began) VALUES (?, ?)", (run, time.time()))
            self._db.execute("UPDATE runs SET about = ? WHERE run = ?", (text, run))

    def about(self, run: str) -> dict[str, Any]:
        """What was kept about a run."""
        with self._errors():
            row = self._db.execute("SELECT about FROM runs WHERE run = ?", (run,)).fetchone()
        return msgspec.json.decode(row[0]) if row else {}

    def latest(self, run: str) -> Checkpoint:
        """Where to go on with a run. Raises AgentError if there is none of this name."""
        return self.at(run)

    def at(self, run: str, step: int | None = None) -> Checkpoint:
        """A step of a run, the latest one by default."""
        query = "SELECT data FROM checkpoints WHERE run = ? AND (? IS NULL OR step = ?) ORDER BY step DESC LIMIT 1"
        with self._errors():
            row = self._db.execute(query, (run, step, step)).fetchone()
        if row is None:
            what = f"run {run!r}" if step is None else f"step {step} of run {run!r}"
            raise AgentError(f"{self._path}: there is no {what}")
        return self._checkpoint(row[0])

    def history(self, run: str) -> list[Checkpoint]:
        """All steps that led to where a run is, those before its fork included, which bear their own run's name."""
        steps: list[Checkpoint] = []
        name, below = run, None
        with self._errors():
            while True:
                query = "SELECT data FROM checkpoints WHERE run = ? AND (? IS NULL OR step < ?) ORDER BY step DESC"
                steps += [self._checkpoint(data) for (data,) in self._db.execute(query, (name, below, below))]
                row = self._db.execute("SELECT origin, origin_step FROM runs WHERE run = ?", (name,)).fetchone()
                if row is None or row[0] is None:
                    break
                name, below = row
        if not steps:
            raise AgentError(f"{self._path}: there is no run {run!r}")
        return steps[::-1]

    def runs(self) -> list[Run]:
        """The latest first."""
        query = """
            SELECT r.run, r.began, c.saved, r.origin, r.origin_step, r.about, c.data FROM runs r
            JOIN checkpoints c ON c.run = r.run
            WHERE c.step = (SELECT max(step) FROM checkpoints WHERE run = r.run) ORDER BY c.saved DESC
        """
        with self._errors():
            rows = self._db.execute(query).fetchall()
        return [
            Run(
                name,
                began,
                saved,
                (origin, step) if origin else None,
                msgspec.json.decode(about),
                self._checkpoint(data),
            )
            for name, began, saved, origin, step, about, data in rows
        ]

    def fork(self, at: Checkpoint, run: str, update: dict[str, Any] | None = None) -> Checkpoint:
        """A new run that begins at this checkpoint, perhaps with other values (JSON data) in some fields.

        Replaying is to go on from it; the old run stays as it was. Raises AgentError if there is a run of this name.
        """
        forked = replace(at, run=run, values=at.values | (update or {}))
        with self._transaction():
            if self._db.execute("SELECT 1 FROM runs WHERE run = ?", (run,)).fetchone():
                raise AgentError(f"there is a run {run!r} already: give the fork another name")
            about = self._db.execute("SELECT about FROM runs WHERE run = ?", (at.run,)).fetchone()
            given = (run, time.time(), at.run, at.step, about[0] if about else "{}")
            self._db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", given)
            data = msgspec.json.encode(forked).decode()
            self._db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", (run, at.step, time.time(), data))
        return forked

    def forget(self, run: str) -> None:
        """Remove a run from the file, to the last byte; forks keep what they have of their own."""
        self.latest(run)
        with self._transaction():
            self._db.execute("DELETE FROM checkpoints WHERE run = ?", (run,))
            self._db.execute("DELETE FROM runs WHERE run = ?", (run,))
        with self._errors():
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self) -> None:
        with self._transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise AgentError(f"{self._path}: expected checkpoints of version {_VERSION}, found {version}")
            if version == 0:
                if self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    raise AgentError(f"{self._path}: expected checkpoints, found another SQLite database")
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def _checkpoint(self, data: str) -> Checkpoint:
        try:
            return msgspec.json.decode(data, type=Checkpoint)
        except msgspec.DecodeError as error:
            raise AgentError(f"{self._path}: a checkpoint is damaged: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise AgentError(f"{self._path}: {error}: expected a file of checkpoints that can be written") from error
