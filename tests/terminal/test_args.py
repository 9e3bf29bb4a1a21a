from pathlib import Path

import pytest

from chenxing import cli
from chenxing.engine import SpecOptions


def test_flags_reach_the_model(model, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages }}\n")
    argv = ["run", "m", "-p", "Hi", "-c", "512", "-t", "1", "-n", "2", "-r", r"\n\n", "-r", "END", "--jinja"]
    argv += ["--isa", "sse", "--no-weight-cache", "--weights", "int8", "-ctv", "q8_0"]
    argv += ["--cache-disk", "8GiB", "--cache-ram", "512"]
    argv += ["-md", "small", "--spec-draft-n-max", "8", "--spec-draft-n-min", "2"]
    argv += [
        "--chat-template-file",
        str(template),
        "--chat-template-kwargs",
        '{"enable_thinking": false}',
        "--top-k",
        "1",
    ]
    assert cli.main([*argv, "-sys", "Be short."]) == 0
    given = {"n_ctx": 512, "n_threads": 1, "isa": "sse", "weight_cache": False, "kv_type": "q8_0"}
    given |= {"weights": "int8", "disk_cache": True, "cache_disk_bytes": 8 << 30, "cache_ram_bytes": 512 << 20}
    given |= {"chat_template": "{{ messages }}", "speculation": SpecOptions(None, "small", 8, 2)}
    assert model.loaded == {"model": "m", **given}
    (call,) = model.llm.calls
    assert (call.max_tokens, call.stop, call.template_kwargs) == (2, ("\n\n", "END"), {"enable_thinking": False})
    assert (call.params.top_k, call.params.temp) == (1, 0.6)  # the user's, the model's own
    assert call.prompt[0] == {"role": "system", "content": "Be short."}


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["-p", r"a\nb"], "a\nb"),
        (["-p", r"a\nb", "--no-escape"], r"a\nb"),
        (["-p", "-5 + 3 ="], "-5 + 3 ="),
        (["-n", "3", "after flags"], "after flags"),
        (["--prompt=-x"], "-x"),
        ([r"positional\ttoo"], "positional\ttoo"),
    ],
)
def test_prompts_of_the_command_line(model, argv: list[str], expected: str) -> None:
    assert cli.main(["run", "m", *argv]) == 0
    assert model.question == expected


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["-p", "a", "b"], "the prompt is given twice"),
        (["-p", "a", "-n", "x"], "-n/--predict: expected a number of tokens"),
        (["-p", "a", "-ctk", "q8_0", "-ctv", "f16"], "-ctk q8_0 and -ctv f16: keys and values are kept in one type"),
        (["-p", "a", "-ctk", "q4_0"], "-ctk/--cache-type-k: invalid choice: 'q4_0'"),
        (
            ["-p", "a", "--spec-type", "eagle"],
            "spec_type: expected one of none, ngram-simple, draft-simple, found 'eagle'",
        ),
        (["-p", "a", "--top-p", "7"], "top_p: expected a number from 0 to 1, found 7"),
        (["-p", "a", "--raw", "-sys", "b"], "--raw takes no system prompt"),
        (["-p", "a", "-sys", "b", "-sysf", "c"], "exclude each other"),
        (["-p", "a", "--chat-template", "b", "--chat-template-file", "c"], "exclude each other"),
        (["-p", "a", "--chat-template-kwargs", "[1]"], "expected a JSON object, found [1]"),
        (["-p", "a", "--chat-template-kwargs", '{"stop": 1}'], "stop is not the template's to know"),
        (["-p", "a", "--chat-template-kwargs", "{"], "expected a JSON object, found Expecting"),
        ([], "the prompt is empty"),
        (["-p", ""], "the prompt is empty"),
        (["-p", "a", "--tmp", "1"], "unknown flag --tmp: did you mean --temp"),
        (["-p", "--"], "argument -p/--prompt: expected one argument"),
        (["a", "b"], "unexpected argument 'b'"),
        (["-p", "a", "-c", "x"], "argument -c/--ctx-size: expected 0 or more, found 'x'"),
        (["-p", "a", "--cache-disk", "much"], "--cache-disk: expected a size such as 20GB or 512MiB, found 'much'"),
        (["-p", "a", "--cache-disk", "-1"], "--cache-disk: expected a size such as 20GB or 512MiB, found '-1'"),
        (["-p", "a", "--cache-ram", "2 parsecs"], "-cram/--cache-ram: expected a size such as"),
        (["-p", "a", "--cache-disk", "1GB", "--no-disk-cache"], "--cache-disk and --no-disk-cache exclude each other"),
        (["-p", "a", "-t", "0"], "argument -t/--threads: expected 1 or more, found '0'"),
    ],
)
def test_usage_errors_are_2(model, capsys, argv: list[str], complaint: str) -> None:
    assert cli.main(["run", "m", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("chenxing: ") and complaint in err and err.count("\n") == 1
    assert model.llm.calls == []
