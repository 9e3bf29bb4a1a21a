// The chat: what is said goes to the server with all that was said before, and the answer is shown as it comes.

import { loadConversation, saveConversation, toSend } from "./conversation.js";
import { AnswerView, questionView } from "./message.js";
import { Refusal, chat, props } from "./requests.js";
import { Settings } from "./settings.js";
import { count, fillIn, words } from "./words.js";

const at = (id) => document.getElementById(id);
const [list, text, send, stop, status] = ["messages", "text", "send", "stop", "status"].map(at);
const NEAR = 120; // pixels from the end of the page: who is as near as this is kept there while an answer grows

let messages = loadConversation();
let running = null; // the AbortController of the answer that is being written

fillIn(document);
text.placeholder = words.placeholder;
const settings = new Settings(greet);

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(at("key").value);
});
at("new").addEventListener("click", startAnew);
stop.addEventListener("click", () => running?.abort());
text.addEventListener("input", fit);
text.addEventListener("keydown", (event) => {
  const isSending = event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
  if (!isSending) return;
  event.preventDefault();
  ask();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !settings.dialog.open) running?.abort();
});
addEventListener("pagehide", () => saveConversation(messages));

showAll();
fit();
greet();

// What the server says of itself; asks for a key if it wants one.
async function greet() {
  try {
    const { model_alias: model, default_generation_settings: defaults } = await props(settings.key);
    at("model").textContent = at("model").title = model;
    at("facts").textContent = `${model} · ${words.context(count(defaults.n_ctx))}`;
    settings.showDefaults(defaults.params);
    at("key-form").hidden = true;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const isAsked = error.status === 401;
    at("facts").textContent = isAsked && !settings.key ? "" : error.message;
    at("key-form").hidden = !isAsked;
  }
}

async function useKey(key) {
  settings.key = key;
  await greet();
  const last = messages.at(-1);
  if (at("key-form").hidden && last?.ending === "failed") again();
  else text.focus();
}

function ask() {
  const said = text.value.trim();
  if (!said || running) return;
  messages.push({ role: "user", text: said });
  list.append(questionView(messages.at(-1)));
  text.value = "";
  fit();
  answer();
}

// Another answer to the last question.
function again() {
  if (running || messages.at(-1)?.role !== "assistant") return;
  messages.pop();
  list.lastChild.remove();
  answer();
}

async function answer() {
  const body = {
    messages: toSend(messages, settings.values.system),
    ...settings.sampling,
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
    return_progress: true,
  };
  const message = { role: "assistant", text: "", reasoning: "" };
  messages.push(message);
  const view = new AnswerView(message, again);
  list.append(view.element);
  const run = new AbortController();
  running = run;
  showState();
  status.textContent = words.answering;
  scrollToEnd();
  try {
    for await (const chunk of chat(body, settings.key, run.signal)) {
      const progress = take(message, chunk);
      showSoon(view, progress);
    }
  } catch (error) {
    end(message, error, run.signal);
  }
  if (running !== run) return; // a new chat was begun
  running = null;
  keptAtEnd(() => view.show());
  saveConversation(messages);
  showState();
  status.textContent = message.failure ?? words.answered;
}

// A chunk into the message. -> how much of the prompt is read, while it is.
function take(message, { choices: [choice], timings, usage, prompt_progress: progress }) {
  message.text += choice?.delta.content ?? "";
  message.reasoning += choice?.delta.reasoning_content ?? "";
  message.ending = choice?.finish_reason ?? message.ending;
  if (timings && !progress) {
    const { predicted_n: n, predicted_per_second: speed, cache_n: cached, prompt_n: computed, prompt_ms: ms } = timings;
    message.figures = { n, speed, cached, computed, ms, prompt: cached + computed };
  }
  if (usage) {
    message.figures.prompt = usage.prompt_tokens;
    message.figures.cached = usage.prompt_tokens_details.cached_tokens;
  }
  return progress && { done: progress.processed, all: progress.total };
}

function end(message, error, signal) {
  if (signal.aborted) {
    message.ending = "stopped";
    return;
  }
  message.ending = "failed";
  message.failure = error.message;
  if (error.status === 401) {
    at("key-form").hidden = false;
    at("key").focus();
  }
  if (!(error instanceof Refusal)) console.error(error);
}

let frame = 0;

// At most once a frame, however fast tokens come.
function showSoon(view, progress) {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => keptAtEnd(() => view.show(progress)));
}

function startAnew() {
  running?.abort();
  running = null;
  messages = [];
  saveConversation(messages);
  showAll();
  text.focus();
}

function showAll() {
  const views = messages.map((m) => (m.role === "user" ? questionView(m) : new AnswerView(m, again).element));
  list.replaceChildren(...views);
  showState();
  scrollToEnd();
}

function showState() {
  at("empty").hidden = messages.length > 0;
  stop.hidden = !running;
  send.hidden = Boolean(running);
  send.disabled = !text.value.trim();
}

// The field is as tall as its text, up to what the style allows.
function fit() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
  send.disabled = !text.value.trim();
}

function keptAtEnd(change) {
  const page = document.documentElement;
  const isNear = page.scrollHeight - innerHeight - scrollY < NEAR;
  change();
  if (isNear) scrollToEnd();
}

function scrollToEnd() {
  scrollTo(0, document.documentElement.scrollHeight);
}
