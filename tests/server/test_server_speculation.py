"""What a server tells of drafts."""

from collections.abc import Iterator

import pytest
from engine.fake_drafter import Longest
from reference.toys import TOYS
from running import Running, running, toy_settings

from chenxing.engine import SpecOptions

ASKED = {"prompt": "the star and that", "n_predict": 60, "ignore_eos": True, "n_probs": 1, "return_tokens": True}


@pytest.fixture(scope="module")
def drafting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose model drafts for itself."""
    folder = tmp_path_factory.mktemp("toy")
    settings = toy_settings(folder)
    settings.model_options["speculation"] = SpecOptions(model_draft=str(TOYS["llama"].write(folder)))
    for server in running(settings):
        server.service.model.engine._speculation._policy = Longest()  # whether it pays or not
        yield server


def test_answers_are_those_of_a_server_that_does_not_draft(server: Running, drafting: Running):
    for more in ({}, {"temperature": 1.0, "seed": 3}):
        plain, drafted = (s.post("/completion", ASKED | more).json for s in (server, drafting))
        assert drafted["tokens"] == plain["tokens"] and drafted["content"] == plain["content"]
        assert drafted["completion_probabilities"] == plain["completion_probabilities"]
        assert drafted["timings"]["draft_n"] >= drafted["timings"]["draft_n_accepted"]


def test_what_is_counted(drafting: Running):
    def figures() -> dict[str, float]:
        lines = drafting.get("/metrics").data.decode().splitlines()
        return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if not line.startswith("#")}

    before = figures()
    body = drafting.chat(max_tokens=80, temperature=0, ignore_eos=True).json
    after = figures()
    timings, details = body["timings"], body["usage"]["completion_tokens_details"]
    assert timings["draft_n"] > 0
    assert details["accepted_prediction_tokens"] == timings["draft_n_accepted"]
    assert details["rejected_prediction_tokens"] == timings["draft_n"] - timings["draft_n_accepted"]
    for name, n in (("draft", timings["draft_n"]), ("accepted", timings["draft_n_accepted"])):
        name = f"llamacpp:spec_decode_num_{name}_tokens_total"
        assert after[name] - before[name] == n
    assert after["llamacpp:spec_decode_num_drafts_total"] > before["llamacpp:spec_decode_num_drafts_total"]


def test_answers_to_several_prompts_are_counted_together(drafting: Running):
    body = drafting.post("/v1/completions", {"prompt": ["the star", "some"], "n": 2, "max_tokens": 20, "seed": 1}).json
    details = body["usage"]["completion_tokens_details"]
    assert sum(details.values()) > 40  # more than one prompt's


def test_what_drafts_is_shown(drafting: Running, server: Running):
    for s, kind in ((drafting, "draft-simple"), (server, "ngram-simple")):
        settings = s.get("/props").json["default_generation_settings"]["params"]
        assert settings["speculative.types"] == kind and s.get("/slots").json[0]["speculative"] is True
