"""Answers as llama-server does, at once, with numbers for tokens: python stand_in_server.py FLAGS ... --port N"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._begin(200)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body["prompt"] == [1000]:
            self._begin(400)
            self.wfile.write(b"no such token")
            return
        self._begin(200)
        time.sleep(len(body["prompt"]) * 1e-3)
        for i in range(body["n_predict"]):
            self._event({"content": "x", "tokens": [i], "stop": False})
            time.sleep(2e-3)
        # as the real one does for a stop token: an event without a token, then the figures
        self._event({"content": "", "tokens": [], "stop": False})
        self._event({"content": "", "tokens": [], "stop": True, "tokens_predicted": body["n_predict"]})

    def _begin(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def _event(self, event: dict) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
