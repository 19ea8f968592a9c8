// SPDX-License-Identifier: Apache-2.0
// The chats: options from the server's own description, several conversations at once, each streamed.
const byId = id => document.getElementById(id);
// 57.1, 571, 57,143
const grouped = number => number.toLocaleString("en", {maximumFractionDigits: number < 100 ? 1 : 0});
const element = (tag, properties, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

const keyField = byId("key");
keyField.value = sessionStorage.getItem("key") ?? "";
keyField.addEventListener("change", () => { sessionStorage.setItem("key", keyField.value); connect(); });
const headers = more => ({...(keyField.value ? {Authorization: "Bearer " + keyField.value} : {}), ...more});

// The text of what went wrong, whatever form the answer has.
async function errorOf(response) {
  const text = await response.text();
  try { return JSON.parse(text).error.message; } catch { return `${response.status} ${text.slice(0, 300)}`; }
}
async function getJson(path) {
  const response = await fetch(path, {headers: headers()});
  if (!response.ok) throw Object.assign(new Error(await errorOf(response)), {status: response.status});
  return response.json();
}

// ---- options

const OWN = ["model", "messages", "prompt", "stream", "stream_options", "tools", "tool_choice", "echo"];
const FIRST = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "presence_penalty", "frequency_penalty", "repetition_penalty"];
const KEPT = "inflight options";
const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
let description = null;

const schemaName = () => byId("mode").value === "chat" ? "ChatRequest" : "CompletionRequest";

// A field's control: what it gives is text; "" means not sent.
function controlFor(name, schema) {
  const value = kept[name] ?? "";
  const choices = schema.type === "boolean" ? ["true", "false"] : schema.enum;
  if (choices) {
    const select = element("select", {name}, new Option("", ""), ...choices.map(each => new Option(each, each)));
    select.value = value;
    return select;
  }
  const numeric = schema.type === "integer" || schema.type === "number";
  const input = element("input", {name, value, type: numeric ? "number" : "text", autocomplete: "off"});
  if (numeric) {
    if (schema.minimum !== undefined) input.min = schema.minimum;
    if (schema.maximum !== undefined) input.max = schema.maximum;
    input.step = schema.type === "integer" ? 1 : "any";
  }
  return input;
}

function showParameters() {
  const box = byId("parameters");
  box.replaceChildren();
  const properties = description?.components.schemas[schemaName()].properties ?? {};
  const usable = Object.keys(properties).filter(name => {
    const about = properties[name].description ?? "";
    return !OWN.includes(name) && !about.startsWith("Accepted, without effect") && !(properties[name].enum?.length === 1);
  });
  usable.sort((a, b) => (FIRST.indexOf(a) + 1 || 99) - (FIRST.indexOf(b) + 1 || 99));
  for (const name of usable) {
    const control = controlFor(name, properties[name]);
    control.addEventListener("change", () => {
      if (control.value === "") delete kept[name]; else kept[name] = control.value;
      localStorage.setItem(KEPT, JSON.stringify(kept));
    });
    box.append(element("label", {}, name, control, element("small", {textContent: properties[name].description ?? ""})));
  }
}

// The options that are set, as the request's fields.
function parameters() {
  const properties = description?.components.schemas[schemaName()].properties ?? {};
  const fields = {};
  for (const control of byId("parameters").querySelectorAll("[name]")) {
    const {name, value} = control;
    if (value === "") continue;
    const type = properties[name].type;
    if (type === "integer" || type === "number") fields[name] = Number(value);
    else if (type === "boolean") fields[name] = value === "true";
    else if (type === "string" || properties[name].enum) fields[name] = value;
    else try { fields[name] = JSON.parse(value); } catch { fields[name] = value; }  // a list or an object, else the text itself
  }
  return fields;
}

// ---- a stream of server-sent events

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const line = text.slice(0, end);
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;  // to the very end: that frees the connection
      yield JSON.parse(line.slice(6));
    }
  }
}

// ---- chats

class Chat {
  constructor(number) {
    this.conversation = [];
    this.abort = null;
    this.frame = null;
    this.card = byId("card").content.firstElementChild.cloneNode(true);
    this.card.querySelector("h3").textContent = "Chat " + number;
    this.messages = this.card.querySelector(".messages");
    this.input = this.card.querySelector("textarea");
    this.stopButton = this.card.querySelector(".stop");
    this.sendButton = this.card.querySelector(".send");
    this.card.querySelector("form").addEventListener("submit", event => { event.preventDefault(); submit(this); });
    this.stopButton.addEventListener("click", () => this.stop());
    this.card.querySelector(".clear").addEventListener("click", () => this.clear());
    this.card.addEventListener("keydown", event => {
      if (event.key === "Escape") this.stop();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === this.input) {
        event.preventDefault();
        submit(this);
      }
    });
  }
  stop() { this.abort?.abort(); }
  clear() {
    this.stop();
    this.conversation = [];
    this.messages.replaceChildren();
  }
  show(kind, text) {
    const message = element("div", {className: "message " + kind}, element("span", {textContent: text}));
    this.messages.append(message);
    this.messages.scrollTop = this.messages.scrollHeight;
    return message;
  }
  setBusy(abort) {
    this.abort = abort;
    this.stopButton.disabled = !abort;
    this.sendButton.disabled = !!abort;
    byId("stop-all").disabled = !chats.some(chat => chat.abort);
  }
  body(text) {
    const common = {...parameters(), stream: true, stream_options: {include_usage: true}};
    if (byId("mode").value !== "chat") return ["/v1/completions", {...common, prompt: text}];
    const system = byId("system").value.trim();
    const messages = [...(system ? [{role: "system", content: system}] : []), ...this.conversation];
    return ["/v1/chat/completions", {...common, messages}];
  }
  async send(text) {
    if (this.abort || !text.trim()) return;
    this.show("mine", text);
    const conversation = this.conversation;  // clear() begins another one
    conversation.push({role: "user", content: text});
    const [path, body] = this.body(text);
    const abort = new AbortController();
    this.setBusy(abort);
    const answers = [];  // by index: {box, text, thought}
    const begin = performance.now();
    const run = {first: 0, usage: null, reason: ""};
    try {
      const response = await fetch(path, {method: "POST", signal: abort.signal, body: JSON.stringify(body), headers: headers({"Content-Type": "application/json"})});
      if (!response.ok) throw new Error(await errorOf(response));
      for await (const event of events(response)) this.take(event, answers, run);
    } catch (error) {
      if (abort.signal.aborted) run.reason = "stopped"; else this.show("wrong", error.message);
    }
    this.paint(answers);
    if (answers[0]) {
      const {text, thought} = answers[0];
      conversation.push({role: "assistant", content: text, ...(thought && {reasoning_content: thought})});
      this.tell(answers, run, begin);
    } else {
      conversation.pop();  // nothing came: the question may be asked again
    }
    this.setBusy(null);
  }
  take(event, answers, run) {
    if (event.error) throw new Error(event.error.message);
    if (event.usage) run.usage = event.usage;
    for (const choice of event.choices ?? []) {
      const calls = (choice.delta?.tool_calls ?? []).map(call => (call.function?.name ?? "") + (call.function?.arguments ?? ""));
      const text = (choice.text ?? choice.delta?.content ?? "") + calls.join("");
      if (choice.finish_reason) run.reason = choice.finish_reason;
      const thought = choice.delta?.reasoning_content ?? "";
      if (!text && !thought && !choice.finish_reason) continue;
      run.first ||= performance.now();
      const answer = answers[choice.index] ??= {box: this.show("theirs", ""), text: "", thought: ""};
      answer.text += text;
      answer.thought += thought;
    }
    this.frame ??= requestAnimationFrame(() => this.paint(answers));
  }
  // Once a frame, however many events there were: measuring after each would lay the page out for every token.
  paint(answers) {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    const atEnd = this.messages.scrollHeight - this.messages.scrollTop - this.messages.clientHeight < 40;
    for (const answer of answers) if (answer) this.write(answer);
    if (atEnd) this.messages.scrollTop = this.messages.scrollHeight;
  }
  // What the model thinks is folded, before what it says.
  write({box, text, thought}) {
    if (thought && !box.querySelector("details")) {
      box.prepend(element("details", {className: "thought"}, element("summary", {textContent: "Reasoning"}), element("span")));
    }
    if (thought) box.querySelector("details > span").textContent = thought;
    box.querySelector(":scope > span").textContent = text;
  }
  tell(answers, {first, usage, reason}, begin) {
    const seconds = (performance.now() - begin) / 1000;  // of the whole answer: its end may come in one piece
    const facts = [`first token after ${(first - begin).toFixed(0)} ms`];
    if (usage) {
      facts.push(`${usage.completion_tokens} tokens`);
      if (seconds > 0) facts.push(`${grouped(usage.completion_tokens / seconds)} tokens/s`);
      const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      facts.push(`prompt ${usage.prompt_tokens}${cached ? `, ${cached} from the cache` : ""}`);
    }
    facts.push({stop: "complete", length: "cut at the length limit", tool_calls: "calls a function"}[reason] ?? reason);
    answers.at(-1).box.append(element("span", {className: "facts", textContent: facts.filter(Boolean).join(" · ")}));
    this.messages.scrollTop = this.messages.scrollHeight;
  }
}

const chats = [];
function setChatCount(count) {
  while (chats.length > count) { const chat = chats.pop(); chat.stop(); chat.card.remove(); }
  while (chats.length < count) { const chat = new Chat(chats.length + 1); chats.push(chat); byId("cards").append(chat.card); }
  byId("cards").classList.toggle("alone", count === 1);
}
function submit(chat) {
  const text = chat.input.value;
  if (chat.abort || !text.trim()) return;
  chat.input.value = "";
  for (const each of byId("to-all").checked ? chats : [chat]) each.send(text);
}

// ---- load: many texts in one request, so in one connection (browsers open no more than six to a server)

const load = {abort: null};
async function startLoad() {
  if (load.abort) return load.abort.abort();
  const count = Number(byId("load-count").value);
  const prompt = Array.from({length: count}, (_, i) => `${byId("load-text").value} (${i + 1})`);
  load.abort = new AbortController();
  byId("load").textContent = "Stop";
  const fields = parameters();
  delete fields.n;
  let tokens = 0, ended = 0;
  const tell = () => { byId("load-state").textContent = `${ended} of ${count} complete, ${tokens} pieces`; };
  try {
    const response = await fetch("/v1/completions", {method: "POST", signal: load.abort.signal, headers: headers({"Content-Type": "application/json"}),
      body: JSON.stringify({max_tokens: 100, ...fields, prompt, stream: true})});
    if (!response.ok) throw new Error(await errorOf(response));
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      for (const choice of event.choices) {
        if (choice.text) ++tokens;
        if (choice.finish_reason) ++ended;
      }
      tell();
    }
  } catch (error) {
    byId("load-state").textContent = load.abort.signal.aborted ? "stopped" : error.message;
  }
  load.abort = null;
  byId("load").textContent = "Start";
}
byId("load").addEventListener("click", startLoad);
byId("chat-count").addEventListener("change", event => setChatCount(Number(event.target.value)));
byId("stop-all").addEventListener("click", () => chats.forEach(chat => chat.stop()));
byId("mode").addEventListener("change", showParameters);
byId("toggle-options").addEventListener("click", event => {
  const options = byId("options");
  options.hidden = !options.hidden;
  event.currentTarget.setAttribute("aria-expanded", String(!options.hidden));
});

const themes = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = localStorage.getItem("theme");
const showTheme = () => { document.documentElement.dataset.theme = chosenTheme ?? (themes.matches ? "dark" : "light"); };
themes.addEventListener("change", showTheme);
byId("theme").addEventListener("click", () => {
  chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", chosenTheme);
  showTheme();
  draw();
});
showTheme();

const served = byId("served");
function tellWrong(error) {
  served.textContent = error.status === 401 ? "This server wants an API key: enter it under Options." : error.message;
  served.className = "wrong";
}
async function connect() {
  try {
    description ??= await getJson("/openapi.json");
    showParameters();
    const [model] = (await getJson("/v1/models")).data;
    served.textContent = `${model.id} · context ${model.max_model_len} tokens`;
    served.className = "";
  } catch (error) {
    tellWrong(error);
  }
}
setChatCount(1);
