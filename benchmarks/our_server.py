"""Our server in a process of its own, which notes when its engine hands a token over.

python -m benchmarks.our_server MODEL THREADS prints its port and serves until its standard input ends. For each line
there, it prints JSON of what happened since the line before: `times` of the tokens, in seconds of the clock that all
processes of a machine share, and `loop_s` that the event loop's thread computed. After a line `alone`, tokens are noted
but not handed to the event loop, until the answer's last one: the same engine does the same work as after `told`.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Sequence

from chenxing.engine import Event, Request, SpecOptions
from chenxing.server.answers import Encoded, Job
from chenxing.server.connections import listen, make_runner
from chenxing.server.service import Service, Wish
from chenxing.server.settings import ServeSettings


class StampedService(Service):
    """times: of every event that has a token, of all answers in a row. is_alone: only the last event is told."""

    def __init__(self, settings: ServeSettings) -> None:
        super().__init__(settings)
        self.times: list[float] = []
        self.is_alone = False

    def submit(self, prompts: Sequence[Encoded], wish: Wish) -> Job:
        job = super().submit(prompts, wish)
        for answer in job.answers:
            self._stamp(answer.request)  # its first token is milliseconds away
        return job

    def _stamp(self, request: Request) -> None:
        tell = request.on_event

        def stamped(event: Event) -> None:
            if event.tokens:
                self.times.append(time.perf_counter())
            if event.finish_reason or not self.is_alone:
                tell(event)

        request.on_event = stamped


async def serve(model: str, n_threads: int) -> None:
    # without drafts a step is a token
    options = {"n_threads": n_threads, "n_ctx": 4096, "disk_cache": False, "speculation": SpecOptions("none")}
    service = StampedService(ServeSettings(model, model_options=options))
    runner = make_runner(service)
    await runner.setup()
    listener = await listen(runner, socket.create_server(("127.0.0.1", 0)))
    service.open(await asyncio.to_thread(service.load))
    print(listener.sockets[0].getsockname()[1], flush=True)
    since = time.thread_time()
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"times": service.times, "loop_s": time.thread_time() - since}), flush=True)
        service.times, service.is_alone, since = [], line.strip() == "alone", time.thread_time()
    listener.close()
    await service.close()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
