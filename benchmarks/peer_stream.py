"""python -m benchmarks.peer_stream N PIECES SERVER ... prints JSON: ms from token to token of streams of N tokens."""

import json
import sys

from benchmarks.http_server import Server
from benchmarks.plain_client import stream

if __name__ == "__main__":
    with Server(sys.argv[3:]) as server:
        stream(server.port, 16)
        print(json.dumps([stream(server.port, int(sys.argv[1])).ms for _ in range(int(sys.argv[2]))]))
