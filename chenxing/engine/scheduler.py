"""What the next step runs: answers first, then prompts; who may begin; and who gives way when pages run out.

Nothing here changes a token: a row's logits depend on its sequence alone (laws L1, L2), and the choice among them on
the request's own random numbers.
Sources  Yu 2022 (Orca: scheduling by iteration), Kwon 2023 (vLLM: preemption when pages run out), Agrawal 2024
(Sarathi-Serve: answers first, prompts in chunks beside them); sharing by a radix tree: Zheng 2024 (SGLang).
"""

from bisect import insort

from chenxing.engine.batch import Batch, Share
from chenxing.engine.pace import Pace
from chenxing.engine.request import Request
from chenxing.engine.rotation import Rotation
from chenxing.engine.speculation import Speculation
from chenxing.errors import OutOfMemoryError
from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache
from chenxing.kvcache import Sequence as KVSequence
from chenxing.models.model import N_BATCH, N_OUTPUTS


class Scheduler:
    """Plans steps. One thread, the engine's.

    n_slots  requests that run at the same time, at most
    running  highest priority first, then in the order of submission: who stands last gives way first
    waiting  in the order of submission

    Invariants: who runs has a sequence with room for all of its pending tokens, but for the latest one; who waits has
    none. A step plans at least one row if anybody lives, so that everybody comes to an end.
    """

    def __init__(
        self, cache: KVCache, n_ctx: int, n_slots: int, pace: Pace, *, speculation: Speculation | None = None
    ) -> None:
        assert 1 <= n_slots <= min(N_BATCH, N_OUTPUTS)
        self.n_ctx, self.n_slots = n_ctx, n_slots
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.n_preemptions = 0
        self._cache, self._pace, self._speculation = cache, pace, speculation
        self._admissions, self._chunks = Rotation(), Rotation()
        self._is_full = False  # somebody did not fit, and nobody has gone since

    def add(self, request: Request) -> None:
        insort(self.waiting, request, key=_order_of_submission)

    def schedule(self) -> Batch:
        """The next step. Takes pages, and takes them away from others, but runs nothing."""
        self._shift_full()
        batch = Batch()
        self._admit(batch)
        self._plan_answers(batch)
        self._plan_drafts(batch)
        self._plan_prompts(batch)
        return batch

    def join(self, twin: Request, leader: Request) -> None:
        """Let twin run with the KV that leader has now."""
        assert leader.sequence
        self.waiting.remove(twin)
        self._start(twin, leader.sequence.fork())

    def remove(self, request: Request) -> None:
        """A request that finished, wherever it is: its pages are free, and what was computed stays in the cache."""
        (self.running if request.state == "running" else self.waiting).remove(request)
        request.leave()
        if self._speculation:
            self._speculation.forget(request)
        self._is_full = False

    def preempt_all(self) -> None:
        """Take everybody's pages, until the next step."""
        for request in list(self.running):
            self._preempt(request)

    def _shift_full(self) -> None:
        for request in [request for request in self.running if request.is_full]:
            self._preempt(request)
            request.shift()
            if self._speculation:
                self._speculation.forget(request)

    # ---- who begins ----

    def _admit(self, batch: Batch) -> None:
        while self.waiting and len(self.running) < self.n_slots and not (self._is_full and self.running):
            candidates = list(self.waiting)
            request = self._next_waiting()
            if request is None or not self._begin(request, batch):
                return
            self._admissions.took(request, candidates)

    def _next_waiting(self) -> Request | None:
        """Whose turn it is among those that need not wait for what another one is computing."""
        candidates = list(self.waiting)
        while candidates:
            request = self._admissions.choose(candidates)
            if not self._waits_for_prefix(request):
                return request
            candidates.remove(request)
        return None

    def _waits_for_prefix(self, request: Request) -> bool:
        """Whether a running request will soon have computed more of this one's tokens than are known now."""
        leader = request.twin_of
        if leader and leader.state != "finished" and not leader.stats.n_generated:
            return True
        if request.awaits and _computes_until(*request.awaits):
            return True
        request.awaits = None
        for other in self.running:
            if other.n_pending > 1 and other.ids[:PAGE] == request.ids[:PAGE]:
                n_common = _n_common(other.ids, request.ids) // PAGE * PAGE
                if n_common > self._cache.match(request.ids) and _computes_until(other, n_common):
                    request.awaits = other, n_common
                    return True
        return False

    def _begin(self, request: Request, batch: Batch) -> bool:
        """Let it run if its tokens fit, and one page more for everybody. -> False if nobody can begin now."""
        sequence = self._cache.begin(request.ids, self.n_ctx)
        n_new = -(-len(request.ids) // PAGE) - len(sequence.held_pages())
        spare = len(self.running) + 1 if self.running else 0
        if self._cache.n_free >= n_new + spare and sequence.reserve(len(request.ids)):
            self.waiting.remove(request)
            self._start(request, sequence)
            return True
        sequence.release()
        self._is_full = True
        if not self.running:
            self._give_up(request, batch)
        return not self.running

    def _start(self, request: Request, sequence: KVSequence) -> None:
        request.start(sequence)
        insort(self.running, request, key=_order_of_yielding)

    # ---- what runs ----

    def _plan_answers(self, batch: Batch) -> None:
        for request in list(self.running):
            if request.state == "running" and request.n_pending == 1 and self._make_room(request, batch):
                self._plan(batch, request, 1)

    def _plan_drafts(self, batch: Batch) -> None:
        """Rows for drafts, where there is room that nobody else needs."""
        if self._speculation is None:
            return
        n_answers = len(batch.shares)
        left = N_OUTPUTS - len(self.running)  # everybody may come to want a row of logits in this step
        for share in batch.shares:
            request, sequence = share.request, share.request.sequence
            if share.is_answer and sequence:
                n = self._speculation.length(share, min(left, request.draftable(self.n_ctx)), n_answers)
                if n and not sequence.reserve(len(request.ids) + n):
                    n = min(n, -len(request.ids) % PAGE)  # what the last page holds
                share.n_draft = n
                left -= n

    def _plan_prompts(self, batch: Batch) -> None:
        n_answers = len(batch.shares)
        n_drafted = sum(share.n_draft for share in batch.shares)
        most = max(1, self._pace.n_rows - n_drafted) if n_answers else self._pace.n_batch
        left = min(N_BATCH - n_answers - n_drafted, most)
        candidates = sorted((r for r in self.running if r.n_pending > 1), key=_order_of_submission)
        while candidates and left:
            request = self._chunks.choose(candidates)
            self._chunks.took(request, candidates)
            candidates.remove(request)
            n = min(request.n_pending, left)
            self._plan(batch, request, n)
            left -= n

    def _plan(self, batch: Batch, request: Request, n: int) -> None:
        share = Share(request, n)
        batch.shares.append(share)
        if not share.is_last or request.stats.n_generated:
            return
        n_joining = sum(len(s.twins) for s in batch.shares)
        n_room = min(self.n_slots - len(self.running), self._cache.n_free - len(self.running)) - n_joining
        twins = [r for r in self.waiting if r.twin_of is request and not r.stats.n_generated]
        share.twins = twins[: max(0, n_room)]

    # ---- when pages run out ----

    def _make_room(self, request: Request, batch: Batch) -> bool:
        """Have a place for its next token, whoever must give way. -> False if it is this one."""
        assert request.sequence
        while not request.sequence.reserve(len(request.ids)):
            last = self.running[-1]
            if last is request and len(self.running) == 1:
                self._give_up(request, batch)
                return False
            self._preempt(last)
            if last is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        request.preempt()
        self.add(request)
        self.n_preemptions += 1
        self._is_full = False

    def _give_up(self, request: Request, batch: Batch) -> None:
        """It does not fit although it is alone: an answer is cut off, a prompt is an error."""
        text = ""
        if request.stats.n_generated:
            text = request.end("length")
        else:
            request.fail(OutOfMemoryError(f"no memory for the KV of {len(request.ids)} tokens: use a smaller -c"))
        batch.ended.append(request.event(text))
        self.remove(request)


def _order_of_submission(request: Request) -> int:
    return request.number


def _order_of_yielding(request: Request) -> tuple[int, int]:
    return -request.priority, request.number


def _computes_until(request: Request, n_tokens: int) -> bool:
    """Whether it is about to have so many tokens computed."""
    return request.sequence is not None and request.sequence.n_tokens < n_tokens


def _n_common(a: list[int], b: list[int]) -> int:
    """How many leading tokens two lists share, found by halving: comparing whole slices is fast."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
