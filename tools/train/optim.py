"""Muon for the matrices inside the network, Adam for embeddings and norms, both on one schedule by elapsed time.

Muon: the momentum of a matrix's gradient, made nearly orthogonal by five Newton-Schulz steps, so that every direction of the
matrix moves at the same speed.  Matrices of one shape are stacked and stepped together.
"""
import collections
import math

import torch


@torch.compile
def orthogonal(g):
    """[n, rows, columns] -> about the nearest orthogonal matrices."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    wide = x.shape[1] <= x.shape[2]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return (x if wide else x.mT).float()


class Muon:
    def __init__(self, matrices, lr, decay=0.01, momentum=0.95):
        self.lr, self.decay, self.momentum = lr, decay, momentum
        shapes = collections.defaultdict(list)
        for p in matrices:
            shapes[tuple(p.shape)].append(p)
        self.groups = [(ps, torch.zeros(len(ps), *shape, device=ps[0].device)) for shape, ps in shapes.items()]

    @torch.no_grad()
    def step(self, factor):
        lr = self.lr * factor
        for ps, velocity in self.groups:
            g = torch.stack([p.grad for p in ps]).float()
            velocity.lerp_(g, 1 - self.momentum)
            u = orthogonal(g.lerp(velocity, self.momentum)) * math.sqrt(max(1.0, ps[0].shape[0] / ps[0].shape[1]))
            torch._foreach_mul_(ps, 1 - lr * self.decay)
            torch._foreach_add_(ps, list(u.unbind(0)), alpha=-lr)


class Optimizer:
    """Both of them.  `progress` 0..1 is the share of the time used: warm-up, level, then down to nothing."""

    def __init__(self, module, muon_lr=0.02, adam_lr=3e-3, warmup=0.02, decay_from=0.4):
        self.warmup, self.decay_from, self.adam_lr = warmup, decay_from, adam_lr
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        inner = [p for n, p in named if p.ndim == 2 and "embed_tokens" not in n and "lm_head" not in n]
        inside = {id(p) for p in inner}
        self.all = [p for _, p in named]
        self.muon = Muon(inner, muon_lr)
        self.adam = torch.optim.AdamW([p for p in self.all if id(p) not in inside], lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)

    def factor(self, progress):
        if progress < self.warmup:
            return progress / self.warmup + 1e-3
        return 1.0 if progress < self.decay_from else max(0.0, (1 - progress) / (1 - self.decay_from))

    def step(self, progress):
        factor = self.factor(progress)
        torch.nn.utils.clip_grad_norm_(self.all, 1.0, foreach=True)
        self.muon.step(factor)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * factor
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for p in self.all:
            p.grad = None
