"""GET /metrics in Prometheus's text format, under llama-server's names."""

from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from chenxing.engine import EngineStats
from chenxing.server.failures import disabled
from chenxing.server.keys import SERVICE
from chenxing.server.totals import Sums, Totals

_MAX = b"n_tokens_max"  # llama-server calls this maximum a counter, but does not name it like one


async def metrics(request: web.Request) -> web.Response:
    """Totals since the start; rates since the last time that somebody asked."""
    service = request.app[SERVICE]
    assert service.facts
    if not service.settings.has_metrics:
        raise disabled("This server does not support metrics endpoint. Start it with `--metrics`")
    stats = await service.stats()
    registry = CollectorRegistry()
    registry.register(_Collector(service.totals, service.totals.new(), stats))
    text = generate_latest(registry).replace(_MAX + b"_total", _MAX)
    headers = {"Process-Start-Time-Unix": str(int(service.started))}
    return web.Response(body=text, headers=headers, content_type="text/plain", charset="utf-8")


class _Collector:
    def __init__(self, totals: Totals, new: Sums, stats: EngineStats) -> None:
        self._totals, self._new, self._stats = totals, new, stats

    def collect(self) -> Iterator[Metric]:
        sums, new, stats = self._totals.sums, self._new, self._stats
        n_processed = sums.n_prompt + sums.n_decoded
        for name, value, what in (
            ("prompt_tokens", sums.n_prompt, "Tokens of prompts that were computed"),
            ("prompt_tokens_cached", sums.n_cached, "Tokens of prompts that were found in the cache"),
            ("prompt_seconds", sums.prompt_s, "Seconds spent on prompts"),
            ("tokens_predicted", sums.n_predicted, "Tokens of answers"),
            ("tokens_predicted_seconds", sums.predicted_s, "Seconds spent on answers"),
            ("n_decode", stats.n_steps, "Steps of the engine"),
            ("n_tokens_max", self._totals.n_longest, "Longest sequence of a prompt and its answer"),
            ("n_preemptions", stats.n_preemptions, "Times that an answer had to give its memory away and wait"),
            ("spec_decode_num_draft_tokens", stats.drafts.n_tokens, "Drafted tokens"),
            ("spec_decode_num_accepted_tokens", stats.drafts.n_accepted, "Drafted tokens that the model accepted"),
            ("spec_decode_num_drafts", stats.drafts.n_drafts, "Drafts"),
        ):
            yield CounterMetricFamily(f"llamacpp:{name}", what, value=value)
        for name, value, what in (
            ("prompt_tokens_seconds", _rate(new.n_prompt, new.prompt_s), "Tokens of prompts per second"),
            ("predicted_tokens_seconds", _rate(new.n_decoded, new.predicted_s), "Tokens of an answer per second"),
            ("requests_processing", stats.n_running, "Answers that run"),
            ("requests_deferred", stats.n_waiting, "Answers that wait"),
            ("n_busy_slots_per_decode", _rate(n_processed, stats.n_steps), "Tokens per step of the engine"),
            ("kv_pages_free", stats.n_free, "Pages of memory that no running answer uses"),
            ("kv_pages", stats.n_pages, "Pages of memory"),
        ):
            yield GaugeMetricFamily(f"llamacpp:{name}", what, value=value)


def _rate(n: float, per: float) -> float:
    return n / per if per else 0.0
