"""What the two drafters' training has in common: rows of the target's own text mixed with fresh ones, a frozen target."""
import os
import random
import time

import numpy
import torch

import network
import stream


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


def frozen_target(folder):
    model = network.load_target(folder).cuda().eval()
    model.requires_grad_(False)
    network.compile_layers(model)
    return model


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
