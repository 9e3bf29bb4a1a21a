"""Our server in a process of its own, which notes when its engine hands a token over.

python -m benchmarks.our_server MODEL THREADS prints its port, serves until its standard input ends, and then prints
the times as JSON: seconds of the clock that all processes of a machine share.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Sequence

from chenxing.engine import Event, Request, SpecOptions
from chenxing.server.answers import Job
from chenxing.server.connections import listen, make_runner
from chenxing.server.service import Service, Wish
from chenxing.server.settings import ServeSettings


class StampedService(Service):
    """times: of every event that has a token, of all answers in a row."""

    def __init__(self, settings: ServeSettings) -> None:
        super().__init__(settings)
        self.times: list[float] = []

    def submit(self, prompts: Sequence[list[int]], wish: Wish) -> Job:
        job = super().submit(prompts, wish)
        for answer in job.answers:
            self._stamp(answer.request)  # its first token is milliseconds away
        return job

    def _stamp(self, request: Request) -> None:
        tell = request.on_event
        assert tell

        def stamped(event: Event) -> None:
            if event.tokens:
                self.times.append(time.perf_counter())
            tell(event)

        request.on_event = stamped


async def serve(model: str, n_threads: int) -> None:
    # without drafts a step is a token, as it is of the engine without a server
    options = {"n_threads": n_threads, "n_ctx": 4096, "disk_cache": False, "speculation": SpecOptions("none")}
    service = StampedService(ServeSettings(model, model_options=options))
    runner = make_runner(service)
    await runner.setup()
    listener = await listen(runner, socket.create_server(("127.0.0.1", 0)))
    service.open(await asyncio.to_thread(service.load))
    print(listener.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    listener.close()
    await service.close()
    await runner.cleanup()
    print(json.dumps(service.times))


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
