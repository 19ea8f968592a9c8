#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Score hf/ : validation perplexity, exact-match accuracy per question kind on unseen seeds, story consistency, samples.

    python evaluate.py [per_kind=24] [stories=40]   -> eval.json, samples.md"""
import json, math, random, re, sys
import numpy as np, torch
from transformers import AutoTokenizer, AutoModelForCausalLM
from generate_corpus import Chat, GIRLS, BOYS, SYSTEM
torch.set_num_threads(2)
PK = int(sys.argv[1]) if len(sys.argv) > 1 else 24
NS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
tok = AutoTokenizer.from_pretrained("hf"); m = AutoModelForCausalLM.from_pretrained("hf", dtype=torch.float32).eval()
U, A, E = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"
wrap = lambda q: U + q + E + A


@torch.no_grad()
def gen(prompts, n, temp=0.0, seed=0):
    torch.manual_seed(seed)
    e = [tok(p, add_special_tokens=False)["input_ids"] for p in prompts]
    L = max(map(len, e))
    ids = torch.tensor([[0] * (L - len(x)) + x for x in e]); am = torch.tensor([[0] * (L - len(x)) + [1] * len(x) for x in e])
    kw = dict(do_sample=True, temperature=temp, top_k=0, top_p=1.0) if temp else dict(do_sample=False)
    o = m.generate(ids, attention_mask=am, max_new_tokens=min(n, 512 - L), eos_token_id=[0, 2], pad_token_id=0, **kw)[:, L:]
    out = []
    for r in o.tolist():
        k = next((i for i, t in enumerate(r) if t in (0, 2)), len(r))
        out.append((tok.decode(r[:k]), k < len(r)))
    return out


res = {}
d = np.load("val.npz"); ids, st = d["ids"].astype(np.int64), d["starts"]; en = np.append(st[1:], len(ids))
with torch.no_grad():
    groups, per = {}, {}
    for i in range(len(st)):
        x = ids[st[i]:en[i]][:512]
        groups.setdefault(len(x), []).append(x)
    tot = n = 0
    for L, xs in sorted(groups.items()):
        x = torch.from_numpy(np.stack(xs))
        lo = torch.nn.functional.cross_entropy(m(x).logits[:, :-1].flatten(0, 1), x[:, 1:].flatten(), reduction="none").view(len(xs), -1)
        for row, xi in zip(lo, x):
            t = tok.decode(xi[:1]); kind = "chat" if xi[0] == 1 else "json-text" if tok.decode(xi[:3]).startswith("Text") else "story"
            a = per.setdefault(kind, [0.0, 0]); a[0] += row.sum().item(); a[1] += len(row)
        tot += lo.sum().item(); n += lo.numel()
res["val_ppl"] = math.exp(tot / n); res["val_tokens"] = n
res["val_ppl_by_kind"] = {k: math.exp(a / b) for k, (a, b) in per.items()}
print(res, flush=True)
c = Chat(random.Random(777)); acc = {}
KINDS = [k for k in Chat.KINDS if k not in ("q_unknown",)]
for k in KINDS:
    qa = []
    while len(qa) < PK:
        q, a = getattr(c, k)()
        if a is not None and not (k == "q_hello" and "joke" in q or "laugh" in q): qa.append((q, a))
    out = gen([wrap(q) for q, _ in qa], 90)
    ok = [o[0] == a for o, (_, a) in zip(out, qa)]
    if k == "q_json":
        def same(o, a):
            try: return json.loads(o) == json.loads(a)
            except ValueError: return False
        ok = [same(o[0], a) for o, (_, a) in zip(out, qa)]
        valid = 0
        for o in out:
            try: json.loads(o[0]); valid += 1
            except ValueError: pass
        res["json_parses"] = valid / PK
    acc[k] = sum(ok) / len(ok)
    bad = [(q, o[0], a) for (q, a), o, g in zip(qa, out, ok) if not g][:2]
    print("%-16s %.2f" % (k, acc[k]), bad, flush=True)
q = [c.q_memory() for _ in range(PK)]
out = gen([wrap(f[0][0]) + f[0][1] + E + wrap(l[0]) for f, l in q], 40)
acc["memory"] = sum(o[0] == l[1] for o, (_, l) in zip(out, q)) / PK; print("memory", acc["memory"])
res["accuracy"] = acc; res["accuracy_mean"] = sum(acc.values()) / len(acc)

# stories: does the text end by itself, and does it keep to the two characters it introduced?
NAMES = set(GIRLS + BOYS)
def story_stats(texts):
    ended = sum(e for _, e in texts); two = 0
    for t, _ in texts:
        two += len({w for w in re.findall(r"\b[A-Z][a-z]+\b", t) if w in NAMES}) <= 2
    return {"n": len(texts), "ended": ended / len(texts), "at_most_two_names": two / len(texts)}
for temp in (0.8,):
    t = gen(["Once upon a time"] * NS, 400, temp, seed=5); res["stories_t%.1f" % temp] = story_stats(t)
reqs = []
while len(reqs) < NS:
    w = c.world(); reqs.append("Tell me a story about %s and %s." % tuple(("an " if x.sp[0] in "aeiou" else "a ") + x.sp for x in (w["H"], w["F"])))
t = gen([wrap(r) for r in reqs], 400)
res["asked_stories_greedy"] = story_stats(t)
res["asked_stories_greedy"]["both_animals_in_story"] = sum(all(re.search(r"\b%s\b" % s, x[0]) for s in re.findall(r"an? (\w+)", r.split("about")[1])) for r, x in zip(reqs, t)) / NS
print(json.dumps({k: v for k, v in res.items() if "stor" in k}, indent=1))
json.dump(res, open("eval.json", "w"), indent=1)

S = []
def show(title, prompt, n=300, temp=0.0, seed=0):
    o, e = gen([prompt], n, temp, seed)[0]
    S.append("**%s**, %s\n\n```\n%s⟶%s%s\n```\n" % (title, "temperature %.1f, seed %d" % (temp, seed) if temp else "greedy", prompt, o, " ■" if e else " …"))
show("1", "Once upon a time"); show("2", "Once upon a time", temp=0.8, seed=1); show("3", "One day, a little fox named Ruby", temp=0.8, seed=2)
show("4", wrap("Tell me a story about a fox.")); show("5", wrap("Tell me a story about a dragon and a mouse."), temp=0.8, seed=3)
show("6", wrap("Hello!")); show("7", wrap("What is 7 + 5?")); show("8", wrap("Sort these words: pear, apple, fig"))
show("9", wrap("Return JSON for: Anna is 9 years old and lives in a castle.")); show("10", wrap("What is the capital of France?"))
show("11", U + "My name is Zelda." + E + A + "Nice to meet you, Zelda!" + E + wrap("What is my name?"))
show("12", wrap("write me a poem about the stock market"), temp=0.8, seed=4)
show("13", "The old man and the sea", n=120)
show("14", wrap("Tell me a story about a lost key."), temp=0.8, seed=6)
open("samples.md", "w").write("# Samples\n\n⟶ marks the end of the prompt, ■ that the model ended by itself.\n\n" + "\n".join(S))
