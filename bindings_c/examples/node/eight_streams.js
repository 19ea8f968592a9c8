// SPDX-License-Identifier: Apache-2.0
// Eight prompts in one continuous batch, awaited in one event loop.   node eight_streams.js inflight.node MODEL.gguf
// inflight.node: see inflight_node.c.
"use strict";
const path = require("node:path");
const [library, model] = process.argv.slice(2);
if (!model) {
  console.error("usage: node eight_streams.js inflight.node MODEL.gguf");
  process.exit(2);
}
const native = require(path.resolve(library));

// The pieces of one answer, as they come. Leaving the loop early cancels it.
async function* answer(engine, prompt, {maxTokens = 256, temperature = 0} = {}) {
  let wake = () => {};
  const stream = native.submit(engine, prompt, maxTokens, temperature, () => wake());
  try {
    for (;;) {
      const woken = new Promise(resolve => { wake = resolve; });
      for (let event; (event = native.next(stream)) !== null; ) {
        if (event === undefined) return;
        yield event.text;
      }
      await woken;
    }
  } finally {
    native.closeStream(stream);
  }
}

const PROMPTS = ["Once upon a time", "One day, a little fox", "There was a kind queen", "Lily and Ben went to the park",
  "The old bear was hungry", "In a small house near the sea", "A bird sat in the tree", "Tom had a red ball"];

async function main() {
  const engine = native.createEngine(model);
  try {
    // All, also when one fails: the engine may go when no stream is left.
    const answers = await Promise.allSettled(PROMPTS.map(async prompt => {
      let text = "";
      for await (const piece of answer(engine, prompt, {maxTokens: 48})) text += piece;
      return text;
    }));
    for (const {reason} of answers) if (reason) throw reason;
    answers.forEach(({value}, index) => console.log(`[${index + 1}] ${PROMPTS[index]}${value}`));
  } finally {
    native.destroyEngine(engine);
  }
}

main().catch(error => {
  console.error("inflight: " + error.message);
  process.exitCode = 1;
});
