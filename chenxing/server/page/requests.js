// What the page asks of its server. Addresses are relative: the server may live under a path of another one.

import { words } from "./words.js";

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The server's /props. Throws a Refusal.
export async function props(key) {
  const response = await ask("props", { headers: headers(key) });
  return response.json();
}

// The chunks of an answer. Throws a Refusal, or an AbortError after signal.
export async function* chat(body, key, signal) {
  const options = { method: "POST", headers: headers(key), body: JSON.stringify(body), signal };
  const response = await ask("v1/chat/completions", options);
  let isDone = false;
  for await (const data of events(response.body)) {
    isDone = data === "[DONE]";
    if (isDone) continue; // what is left is the end of the connection, which wants to be read
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refusal(chunk.error.code, chunk.error.message);
    yield chunk;
  }
  if (!isDone) throw new Refusal(0, words.connectionLost);
}

function headers(key) {
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, words.noServer);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new Refusal(response.status, body?.error?.message ?? `HTTP ${response.status}`);
}

// The data of server-sent events; comments, which keep a connection alive, are skipped.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, words.connectionLost);
  } finally {
    reader.cancel().catch(() => {});
  }
}
