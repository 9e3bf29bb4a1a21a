"""Other clients than OpenAI's own for Python, each in a session with a real model. Absent ones are skipped."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chenxing.server.settings import ServeSettings

pytestmark = [pytest.mark.peer, pytest.mark.model]
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]
CITY = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": CITY}}


@pytest.fixture(scope="module")
def url(smollm2_path) -> Iterator[str]:
    from server.running import Running

    options = {"n_ctx": 8192, "disk_cache": False}
    server = Running(ServeSettings(str(smollm2_path), options, sampling={"temp": 0.0}, n_predict=150))
    yield f"http://127.0.0.1:{server.port}/v1"
    server.close()


def test_litellm(url):
    litellm = pytest.importorskip("litellm")
    to = {"model": "openai/any", "api_base": url, "api_key": "none"}
    reply = litellm.completion(messages=ASK, max_tokens=8, **to)
    assert reply.choices[0].message.content and reply.usage.completion_tokens <= 8
    reply = litellm.completion(messages=ASK, tools=[TOOL], tool_choice="required", max_tokens=80, **to)
    call = reply.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather" and json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    chunks = list(litellm.completion(messages=ASK, tools=[TOOL], tool_choice="required", stream=True, **to))
    whole = litellm.stream_chunk_builder(chunks, messages=ASK)
    assert json.loads(whole.choices[0].message.tool_calls[0].function.arguments)["city"] in ("Paris", "Rome")
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(messages=[{"role": "user", "content": "word " * 9000}], **to)


def test_langchain(url):
    langchain_openai = pytest.importorskip("langchain_openai")
    pydantic = pytest.importorskip("pydantic")
    model = langchain_openai.ChatOpenAI(
        model="any", base_url=url, api_key="none", max_tokens=80, max_retries=0, stream_usage=True
    )
    assert model.invoke("What is the capital of France?").content
    pieces = list(model.stream("What is the capital of France?"))
    assert len(pieces) > 2 and sum((piece.usage_metadata or {}).get("output_tokens", 0) for piece in pieces)
    message = model.bind_tools([TOOL], tool_choice="any").invoke("What is the weather in Paris?")
    assert {call["name"] for call in message.tool_calls} == {"get_weather"}
    assert message.tool_calls[0]["args"]["city"] in ("Paris", "Rome")

    class City(pydantic.BaseModel):
        """A city."""

        capital: bool

    assert isinstance(model.with_structured_output(City, method="json_schema").invoke("Is Paris a capital?"), City)
    assert isinstance(model.with_structured_output(City, method="function_calling").invoke("Is Paris one?"), City)


def test_npm_client(url):
    """CHENXING_TEST_NODE names a folder whose node_modules has `openai`."""
    folder = os.environ.get("CHENXING_TEST_NODE", "")
    if not shutil.which("node") or not (Path(folder) / "node_modules" / "openai").is_dir():
        pytest.skip("no node, or no openai in CHENXING_TEST_NODE/node_modules")
    command = ["node", str(Path(__file__).with_name("client.mjs")), url, folder]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["text"] and told["pieces"] > 3 and told["models"] == 1 and told["status"] == 400
    assert told["call"]["name"] == "get_weather" and told["reason"] == "tool_calls"
    assert json.loads(told["call"]["arguments"])["city"] in ("Paris", "Rome") and told["json"]["city"]


def test_aider(url, tmp_path):
    """It asks for a change of a file; what so small a model answers is no edit that it takes, but the session ends."""
    aider = shutil.which("aider")
    if aider is None:
        pytest.skip("aider is not installed")
    (tmp_path / "hello.py").write_text("print('hello')\n")
    about = {"max_input_tokens": 8192, "max_output_tokens": 150, "litellm_provider": "openai", "mode": "chat"}
    (tmp_path / "about.json").write_text(json.dumps({"openai/any": about}))  # else a list is looked up in the network
    flags = "--no-git --yes-always --no-check-update --no-show-model-warnings --no-pretty --no-analytics --no-gitignore"
    command = [aider, "--model", "openai/any", *flags.split(), "--edit-format", "whole", "--map-tokens", "0"]
    command += ["--model-metadata-file", "about.json", "--message", "Print goodbye instead.", "hello.py"]
    keys = {"OPENAI_API_BASE": url, "OPENAI_API_KEY": "none", "HOME": str(tmp_path), "PYTHONPATH": ""}
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=os.environ | keys,
        stdin=subprocess.DEVNULL,
    )
    said = run.stdout + run.stderr
    assert run.returncode == 0 and "Tokens:" in said, said
    assert "litellm" not in said.lower().replace("litellm.ai", ""), said  # its errors carry that name
