#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hf/ -> golden.json : prompts, ids, 32 greedy tokens (float32, end tokens not obeyed), top-5 logits of the first step."""
import json, random, re, hashlib
import torch, transformers
from transformers import AutoTokenizer, AutoModelForCausalLM
from generate_corpus import Chat
torch.set_num_threads(2)
tok = AutoTokenizer.from_pretrained("hf"); m = AutoModelForCausalLM.from_pretrained("hf", dtype=torch.float32).eval()
U, A, E = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"
wrap = lambda q: U + q + E + A
T = lambda s: tok(s, add_special_tokens=False)["input_ids"]
c = Chat(random.Random(4242))
long_chat = ""
qs = [c.pick() for _ in range(40)]
for q, a in qs:
    if len(T(long_chat + wrap(q) + a + E)) > 370: break
    long_chat += wrap(q) + a + E
long_chat += wrap("Tell me a story about a fox.")
story = c.story()
while len(T(story)) < 170: story = c.story()
ids400 = []
while len(ids400) < 400: ids400 += T(c.story()) + [0]
P = [("one-token", tok.decode(T("Once")[:1])), ("story-open", "Once upon a time"), ("story-named", "One day, a little fox named Ruby"),
     ("story-middle", story[:len(story) * 2 // 3]), ("story-400", tok.decode(ids400[:400])),
     ("chat-hello", wrap("Hello!")), ("chat-sum", wrap("What is 7 + 5?")), ("chat-sort", wrap("Sort these words: pear, apple, fig")),
     ("chat-system", "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + wrap("What color is a banana?")),
     ("chat-memory", wrap("My name is Zelda.") + "Nice to meet you, Zelda!" + E + wrap("What is my name?")),
     ("chat-story", wrap("Tell me a story about a fox.")), ("chat-long", long_chat),
     ("json", wrap("Return JSON for: Anna is 9 years old and lives in a castle.")),
     ("json-text", "Text: Mia, Tom and Sam went to the park.\nJSON:"),
     ("bytes", "Ünïcödé 日本 🙂 \t x")]
out = []
with torch.no_grad():
    for name, p in P:
        ids = T(p); assert tok.decode(ids) == p, name
        x = torch.tensor([ids]); lg = m(x).logits[0]
        first = lg[-1]; cur = list(ids); g = []; margin = []
        for _ in range(32):
            l = m(torch.tensor([cur])).logits[0, -1]; t2 = l.topk(2); n = int(t2.indices[0])
            margin.append(float(t2.values[0] - t2.values[1])); g.append(n); cur.append(n)
        k = next((i for i, t in enumerate(g) if t in (0, 2)), None)
        top = first.topk(5)
        nll = float(torch.nn.functional.cross_entropy(lg[:-1], x[0, 1:])) if len(ids) > 1 else None
        out.append({"name": name, "prompt": p, "prompt_tokens": len(ids), "prompt_ids": ids, "greedy_ids": g, "greedy_text": tok.decode(g),
                    "end_at": k, "min_margin": round(min(margin), 4), "min_margin_to_end": round(min(margin[:(k + 1) if k is not None else 32]), 4),
                    "prompt_mean_nll": None if nll is None else round(nll, 6),
                    "top5": [{"id": int(i), "token": tok.convert_ids_to_tokens(int(i)), "logit": round(float(v), 5)} for v, i in zip(*top)]})
sha = hashlib.sha256(open("hf/model.safetensors", "rb").read()).hexdigest()
doc = {"model": "hf/model.safetensors", "sha256": sha, "dtype": "weights float16, arithmetic float32", "transformers": transformers.__version__, "torch": torch.__version__,
       "note": "No BOS. greedy_ids runs on through end tokens; end_at is the index of the first end token (0 or 2) or null. min_margin: smallest top1-top2 logit gap over the 32 steps.", "cases": out}
s = json.dumps(doc, ensure_ascii=False, indent=1)
s = re.sub(r"\[\s+((?:-?\d+,\s+)*-?\d+)\s+\]", lambda mm: "[" + re.sub(r"\s+", " ", mm.group(1)) + "]", s)
open("golden.json", "w").write(s + "\n")
for o in out: print("%-13s %4d tok  end %-4s margin %.3f (to end %.3f)  %r" % (o["name"], o["prompt_tokens"], o["end_at"], o["min_margin"], o["min_margin_to_end"], o["greedy_text"][:90]))
