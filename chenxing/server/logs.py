"""Lines on stderr: as text, or as one JSON object a line. Prompts and answers are in none of them."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]


class JsonLines(logging.Formatter):
    """time, level and message; what is known of a request as members of their own; a traceback as `error`."""

    def format(self, record: logging.LogRecord) -> str:
        members = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            members["error"] = self.formatException(record.exc_info)
        return json.dumps(members, ensure_ascii=False)


def start_logging(log_format: LogFormat, *, requests: bool) -> None:
    """requests: a line for each."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else text)
    logging.basicConfig(handlers=[handler])
    logging.getLogger("chenxing.server").setLevel(logging.INFO if requests else logging.WARNING)
