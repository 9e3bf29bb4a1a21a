// One message on the page.

import { copyButton, element, icon } from "./dom.js";
import { Prose } from "./render.js";
import { count, words } from "./words.js";

export function questionView(message) {
  const text = element("p", { className: "bubble", textContent: message.text });
  return element("li", { className: "question" }, element("h2", { className: "unseen", textContent: words.you }), text);
}

// Shows an answer as it grows. onAgain: the reader wants another one.
export class AnswerView {
  constructor(message, onAgain) {
    this.message = message;
    this.prose = new Prose();
    this.thoughts = new Prose();
    this.thoughtsTitle = element("summary");
    this.details = element("details", { className: "thoughts" }, this.thoughtsTitle, this.thoughts.element);
    this.waiting = element("p", { className: "waiting" }, element("span", { className: "pulse" }), element("span"));
    this.notice = element("p", { className: "notice" });
    this.figures = element("p", { className: "figures" });
    this.again = element("button", { type: "button", className: "quiet again", title: words.again, onclick: onAgain }, icon("again"));
    this.again.setAttribute("aria-label", words.again);
    this.retry = element("button", { type: "button", className: "plain", textContent: words.retry, onclick: onAgain });
    this.copy = copyButton(words, () => this.message.text);
    this.below = element("div", { className: "below" }, this.copy, this.again, this.figures);
    const title = element("h2", { className: "unseen", textContent: words.assistant });
    const parts = [title, this.details, this.prose.element, this.waiting, this.notice, this.below];
    this.element = element("li", { className: "answer" }, ...parts);
    this.show();
  }

  // progress: {done, all} tokens of the prompt, while it is read.
  show(progress) {
    const { text, reasoning, ending, failure } = this.message;
    const isRunning = !ending;
    this.element.setAttribute("aria-busy", isRunning);
    this.details.hidden = !reasoning;
    if (reasoning) {
      this.thoughtsTitle.textContent = isRunning && !text ? words.thinking : words.thoughts;
      this.thoughts.show(reasoning);
    }
    this.prose.show(text);
    this.waiting.hidden = !isRunning || Boolean(text || reasoning);
    this.waiting.lastChild.textContent = progress ? words.reading(count(progress.done), count(progress.all)) : words.waiting;
    this.waiting.lastChild.className = progress ? "" : "unseen";
    this.showNotice(ending, failure);
    this.below.hidden = !text && ending !== "stopped";
    this.again.hidden = isRunning;
    this.copy.hidden = isRunning || !text;
    this.showFigures();
  }

  showNotice(ending, failure) {
    const notices = { failed: failure, stopped: words.stopped, length: words.cutOff };
    this.notice.hidden = !(ending in notices);
    this.notice.classList.toggle("bad", ending === "failed");
    this.notice.replaceChildren(notices[ending] ?? "");
    if (ending === "failed") this.notice.append(" ", this.retry);
  }

  showFigures() {
    const { n, speed, cached, prompt, computed, ms } = this.message.figures ?? {};
    if (n === undefined) return;
    const parts = [words.tokens(count(n))];
    if (speed) parts.push(words.speed(count(speed < 100 ? speed : Math.round(speed))));
    if (cached) parts.push(words.cached(count(cached), count(prompt)));
    this.figures.replaceChildren(...parts.map((part) => element("span", { textContent: part })));
    this.figures.title = words.promptTook(count(computed), count(ms));
  }
}
