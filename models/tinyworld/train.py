#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train the demo model.

    python train.py --steps 9000 --minutes 70
The cosine schedule follows whichever is further on, the step budget or the wall clock,
so a slow machine still ends with a fully decayed learning rate."""
import argparse, json, math, os, sys, time
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
import numpy as np, torch
from model import Llama, CFG

ap = argparse.ArgumentParser()
ap.add_argument("--steps", type=int, default=9000)
ap.add_argument("--minutes", type=float, default=70)
ap.add_argument("--deadline", type=float, default=0, help="unix time that ends the run, instead of --minutes")
ap.add_argument("--bs", type=int, default=8)
ap.add_argument("--lr", type=float, default=4e-3)
ap.add_argument("--warmup", type=int, default=100)
ap.add_argument("--init", default="", help="start from this checkpoint's weights")
ap.add_argument("--ckpt", default="ckpt.pt")
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--no-compile", action="store_true")
a = ap.parse_args()
t0 = time.time()
if a.deadline:
    a.minutes = (a.deadline - t0) / 60
torch.manual_seed(a.seed); torch.set_num_threads(2)
T = CFG["ctx"]


def windows(npz, rng):
    """Endless windows of T+1 tokens that begin at a document; a cut document begins the next window whole."""
    d = np.load(npz); ids, st = d["ids"], d["starts"]; en = np.append(st[1:], len(ids))
    while True:
        cur, n = [], 0
        for i in rng.permutation(len(st)):
            cur.append(ids[st[i]:en[i]]); n += len(cur[-1])
            if n >= T + 1:
                w = np.concatenate(cur)[:T + 1]
                yield w
                last = cur[-1] if len(cur) > 1 and n > T + 1 else None
                cur, n = ([last], len(last)) if last is not None and len(last) < T + 1 else ([], 0)


m = Llama()
f = m if a.no_compile else torch.compile(m)


class Muon:
    """Momentum, then orthogonalised by Newton-Schulz; scaled to an AdamW-like step size.  For the block matrices."""
    def __init__(self, params, wd, mom=0.95):
        by = {}
        for q in params:
            by.setdefault(tuple(q.shape), []).append(q)
        self.groups = [(ps, torch.zeros(len(ps), *s)) for s, ps in by.items()]
        self.wd, self.mom = wd, mom

    @torch.no_grad()
    def step(self, lr):
        for ps, buf in self.groups:
            g = torch.stack([q.grad for q in ps])
            buf.lerp_(g, 1 - self.mom)
            x = g.lerp(buf, self.mom).bfloat16()
            tr = x.shape[1] > x.shape[2]
            x = x.mT.contiguous() if tr else x
            x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
            for _ in range(5):
                k = x @ x.mT
                x = 3.4445 * x + (-4.7750 * k + 2.0315 * (k @ k)) @ x
            x = (x.mT if tr else x).float() * (0.2 * max(x.shape[1:]) ** 0.5)
            for q, u in zip(ps, x):
                q.mul_(1 - lr * self.wd).sub_(u, alpha=lr)
                q.grad = None


mat = [q for n, q in m.named_parameters() if q.dim() == 2 and n.startswith("layers.")]
rest = [q for n, q in m.named_parameters() if not (q.dim() == 2 and n.startswith("layers."))]
muon = Muon(mat, wd=0.05)
opt = torch.optim.AdamW(rest, lr=a.lr, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.0, foreach=True)
step0 = 0
if a.init:
    ck = torch.load(a.init, weights_only=True); m.load_state_dict(ck["model"]); step0 = ck["step"]
gen = windows("train.npz", np.random.default_rng(a.seed))
vg = windows("val.npz", np.random.default_rng(0))
val = torch.from_numpy(np.stack([next(vg) for _ in range(16)]).astype(np.int64))


def evaluate():
    with torch.no_grad():
        return sum(m(v[:, :-1], v[:, 1:]).item() for v in val.split(8)) / (len(val) / 8)


def save(step, vl, done=False):
    torch.save(dict(model=m.state_dict(), cfg=CFG, step=step, val=vl, done=done, tokens=step * a.bs * T, secs=time.time() - t0, args=vars(a)), a.ckpt + ".tmp")
    os.replace(a.ckpt + ".tmp", a.ckpt)


log = open("train_log.jsonl", "w", buffering=1)
ema, last_save = None, time.time()
for step in range(10 ** 9):
    el = time.time() - t0
    p = max(step / a.steps, el / (a.minutes * 60))
    if p >= 1:
        break
    lr = a.lr * min(1, (step + 1) / a.warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * p)))
    for g in opt.param_groups:
        g["lr"] = lr
    b = torch.from_numpy(np.stack([next(gen) for _ in range(a.bs)]).astype(np.int64))
    with torch.autocast("cpu", torch.bfloat16):
        loss = f(b[:, :-1].contiguous(), b[:, 1:].contiguous())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    muon.step(lr); opt.step(); opt.zero_grad(set_to_none=True)
    l = loss.item(); ema = l if ema is None else 0.98 * ema + 0.02 * l
    if step % 50 == 0:
        rec = dict(step=step, loss=round(ema, 4), lr=round(lr, 6), p=round(p, 3), secs=round(el), cpu=round(time.process_time()))
        print(json.dumps(rec), flush=True); log.write(json.dumps(rec) + "\n")
    if time.time() - last_save > 240:
        vl = evaluate(); save(step, vl); last_save = time.time()
        rec = dict(step=step, val=round(vl, 4)); print(json.dumps(rec), flush=True); log.write(json.dumps(rec) + "\n")
vl = evaluate(); save(step, vl, True)
rec = dict(step=step, val=round(vl, 4), done=True, secs=round(time.time() - t0)); print(json.dumps(rec)); log.write(json.dumps(rec) + "\n")
