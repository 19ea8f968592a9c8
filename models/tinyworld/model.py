# SPDX-License-Identifier: Apache-2.0
"""Plain PyTorch Llama (RMSNorm, half-rotation RoPE, SwiGLU, GQA, tied embeddings); parameter names as in HF."""
import math
import torch, torch.nn as nn, torch.nn.functional as F

CFG = dict(vocab=1024, dim=256, layers=4, heads=8, kv=2, ffn=512, ctx=512, theta=10000.0, eps=1e-5)


class RMSNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def rope_tables(n, hd, theta):
    f = theta ** (-torch.arange(0, hd, 2).float() / hd)
    a = torch.outer(torch.arange(n).float(), f)
    a = torch.cat([a, a], -1)
    return a.cos(), a.sin()


def rotate(x, cos, sin):
    h = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., h:], x[..., :h]], -1) * sin


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.hd = c, c["dim"] // c["heads"]
        lin = lambda i, o: nn.Linear(i, o, bias=False)
        self.q_proj, self.k_proj = lin(c["dim"], c["dim"]), lin(c["dim"], c["kv"] * self.hd)
        self.v_proj, self.o_proj = lin(c["dim"], c["kv"] * self.hd), lin(c["dim"], c["dim"])

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        c, hd = self.c, self.hd
        q = self.q_proj(x).view(b, t, c["heads"], hd).transpose(1, 2)
        k = self.k_proj(x).view(b, t, c["kv"], hd).transpose(1, 2)
        v = self.v_proj(x).view(b, t, c["kv"], hd).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        g = c["heads"] // c["kv"]
        k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(b, t, c["dim"]))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(c["dim"], c["ffn"], bias=False), nn.Linear(c["dim"], c["ffn"], bias=False)
        self.down_proj = nn.Linear(c["ffn"], c["dim"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(c["dim"], c["eps"]), RMSNorm(c["dim"], c["eps"])
        self.self_attn, self.mlp = Attn(c), MLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, c=CFG):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab"], c["dim"])
        self.layers = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = RMSNorm(c["dim"], c["eps"])
        cos, sin = rope_tables(c["ctx"], c["dim"] // c["heads"], c["theta"])
        self.register_buffer("cos", cos, persistent=False), self.register_buffer("sin", sin, persistent=False)
        for n, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * c["layers"]) if n.endswith(("o_proj.weight", "down_proj.weight")) else (0.04 if "embed" in n else 0.6 / math.sqrt(p.shape[1])))

    def forward(self, ids, targets=None):
        x = self.embed_tokens(ids)
        t = ids.shape[1]
        cos, sin = self.cos[:t].to(x.dtype), self.sin[:t].to(x.dtype)
        for l in self.layers:
            x = l(x, cos, sin)
        x = self.norm(x)
        if targets is None:
            return F.linear(x, self.embed_tokens.weight)
        return F.cross_entropy(F.linear(x, self.embed_tokens.weight).float().flatten(0, 1), targets.flatten())
