"""A conversation: the second answer reuses what the first one computed."""

from chenxing import LLM

messages = [{"role": "system", "content": "You answer in one sentence."}]
with LLM.load("smollm2") as llm:
    for question in ("What is a star?", "And a planet?"):
        messages.append({"role": "user", "content": question})
        answer = llm.stream(messages, max_tokens=80)
        for piece in answer:
            print(piece, end="", flush=True)
        stats = answer.stats
        print(f"\n[{stats.n_cached} of {stats.n_prompt} prompt tokens reused]\n")
        messages.append({"role": "assistant", "content": answer.text})
