"""Requests that schemathesis makes from the document, sound and broken ones: every answer is one that it describes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from running import Running, running, toy_settings

from chenxing.server.openapi.document import document

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis, of the 'test' extra, is not installed")
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.checks import CHECKS, load_all_checks  # noqa: E402

N_EXAMPLES = 6  # of sound and of broken requests for each operation
API = schemathesis.openapi.from_dict(document(has_key=False, has_ui=True))
OPERATIONS = {operation.label: operation for operation in (result.ok() for result in API.get_all_operations())}
load_all_checks()
DESCRIBED = [
    check
    for check in CHECKS.get_all()
    if check.__name__ in ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
]
NOT_A_FAILURE = (501, 503)  # the server was started without it, memory is full


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Answers are short, whatever is asked for."""
    folder = tmp_path_factory.mktemp("toy")
    yield from running(toy_settings(folder, n_ctx_slot=64, slot_save_path=folder))


def test_the_document_is_sound():
    API.validate()


SOUND = [(label, GenerationMode.POSITIVE) for label in sorted(OPERATIONS)]
BROKEN = [(label, GenerationMode.NEGATIVE) for label, found in sorted(OPERATIONS.items()) if found.body or found.query]


@pytest.mark.parametrize(("label", "mode"), SOUND + BROKEN)
def test_answers_to(server: Running, label: str, mode: Any):
    operation = OPERATIONS[label]

    @settings(
        max_examples=N_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call(base_url=f"http://127.0.0.1:{server.port}", timeout=60)
        assert answer.status_code < 500 or answer.status_code in NOT_A_FAILURE, answer.text
        if answer.status_code >= 400:
            assert json.loads(answer.content)["error"]["code"] == answer.status_code
        case.validate_response(answer, checks=DESCRIBED)

    ask()


def test_the_next_request_is_answered_as_ever(server: Running):
    choice = server.chat(max_tokens=4).json["choices"][0]
    assert choice["finish_reason"] == "length" and server.chat(max_tokens=4).json["choices"][0] == choice
