// The sheet with the system prompt, the sampling and the key.

import { loadSettings, saveSettings } from "./conversation.js";
import { element } from "./dom.js";
import { count, words } from "./words.js";

const FIELDS = {
  temperature: { min: 0, max: 10, step: "any" },
  top_p: { min: 0, max: 1, step: "any" },
  top_k: { min: 0, step: 1 },
  min_p: { min: 0, max: 1, step: "any" },
  max_tokens: { min: 1, step: 1 },
  seed: { min: 0, max: 4294967295, step: 1 },
};

export class Settings {
  constructor(onChange) {
    this.values = loadSettings();
    this.dialog = document.getElementById("settings");
    this.form = document.getElementById("settings-form");
    document.getElementById("sampling").append(...Object.keys(FIELDS).map(field));
    for (const input of this.form.elements) if (input.name) input.value = this.values[input.name] ?? "";
    this.form.addEventListener("input", () => this.keep());
    this.dialog.addEventListener("close", onChange);
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    document.getElementById("open-settings").addEventListener("click", () => this.dialog.showModal());
    document.getElementById("reset").addEventListener("click", () => this.reset());
  }

  get key() {
    return this.values.key;
  }

  set key(key) {
    this.form.elements.key.value = key;
    this.keep();
  }

  // Fields that the reader has filled in, as a request takes them.
  get sampling() {
    const given = Object.keys(FIELDS).filter((name) => this.values[name]);
    return Object.fromEntries(given.map((name) => [name, Number(this.values[name])]));
  }

  // The server's own values are what an empty field stands for.
  showDefaults(params) {
    for (const name of Object.keys(FIELDS)) {
      const value = params[name];
      const isOpen = value === undefined || ((name === "max_tokens" || name === "seed") && (value < 0 || value >= 4294967295));
      const otherwise = name === "seed" ? words.random : name === "max_tokens" ? words.unlimited : "";
      this.form.elements[name].placeholder = isOpen ? otherwise : count(value);
    }
  }

  keep() {
    for (const input of this.form.elements) {
      if (input.name && input.checkValidity()) this.values[input.name] = input.value.trim();
    }
    saveSettings(this.values);
  }

  reset() {
    for (const name of Object.keys(FIELDS)) this.form.elements[name].value = "";
    this.keep();
  }
}

function field(name) {
  const input = element("input", { name, type: "number", inputMode: "decimal", ...FIELDS[name] });
  return element("label", { className: "field" }, element("span", { textContent: words[name] }), input);
}
