"""What the two drafters' training has in common: rows of the target's own text mixed with fresh ones, a frozen target, the loop."""
import argparse
import os
import random
import time

import numpy
import torch

import export
import network
import stream
from optim import Optimizer


class Rows:
    """Half the rows of a batch are the target's own greedy text, half come from the generator (which the target imitates)."""

    def __init__(self, own_text, tokenizer, length, seed, workers):
        with numpy.load(own_text) as file:
            self.own = list(zip(file["tokens"], file["own"]))
        self.none = numpy.zeros((0, stream.PICTURE), numpy.float32)
        self.rng = random.Random(seed)
        self.stream = stream.Stream(tokenizer, length, seed, workers)

    def next_batch(self, count, most_pictures):
        half = count // 2
        return [(*row, self.none) for row in self.rng.choices(self.own, k=half)] + self.stream.next_batch(count - half, most_pictures)


class Log:
    def __init__(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file, self.begin = open(path, "a"), time.time()

    def __call__(self, text):
        text = "%s  %4.0f s" % (text, time.time() - self.begin)
        print(text, flush=True)
        self.file.write(text + "\n")
        self.file.flush()


class Training:
    """The loop of a drafter called `name`: options, batches, the frozen target, and the clock that ends it."""

    def __init__(self, name, about, rows, pictures, seed):
        parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("target")
        parser.add_argument("out")
        parser.add_argument("--tokenizer", required=True)
        parser.add_argument("--own", required=True, help="rows of self_text.py")
        parser.add_argument("--minutes", type=float, default=3.0)
        parser.add_argument("--rows", type=int, default=rows)
        parser.add_argument("--length", type=int, default=4096)
        parser.add_argument("--pictures", type=int, default=pictures, help="most pictures of a batch")
        parser.add_argument("--workers", type=int, default=6)
        options = parser.parse_args()
        self.name, self.out, self.minutes = name, options.out, options.minutes
        self.say = Log(os.path.join(options.out, name + ".log"))
        torch.manual_seed(seed)
        source = Rows(options.own, options.tokenizer, options.length, name, options.workers)
        self.next_batch = network.prefetch(source, options.rows, options.pictures, "cuda")
        self.target = network.load_target(options.target).cuda().eval()
        self.target.requires_grad_(False)
        network.compile_layers(self.target)
        self.table = self.target.model.language_model.embed_tokens

    def run(self, drafter, loss_of, config):
        """loss_of(batch, step) -> (loss, a function that says how it stands); trains, then writes the drafter."""
        self.say("%.2f M parameters" % (sum(p.numel() for p in drafter.parameters()) / 1e6))
        optimizer, step, start, progress = Optimizer(drafter), 0, None, 0.0
        while progress < 1:
            loss, report = loss_of(self.next_batch(), step)
            loss.backward()
            start = start or time.time()  # the first step has been compiled
            progress = (time.time() - start) / (60 * self.minutes)
            optimizer.step(min(progress, 1.0))
            step += 1
            if step % 50 == 0 or step == 1 or progress >= 1:
                self.say("step %4d  loss %.3f  %s" % (step, loss.item(), report()))
        export.save_drafter(drafter, os.path.join(self.out, self.name), config)


def shifted(x, by):
    """x[:, i + by] at i; zeros past the end."""
    if by == 0:
        return x
    out = torch.zeros_like(x)
    if by > 0:
        out[:, :-by] = x[:, by:]
    else:
        out[:, -by:] = x[:, :by]
    return out
