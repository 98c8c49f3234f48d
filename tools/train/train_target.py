"""Trains the target for a given time: python3 train_target.py OUT --tokenizer FILE --minutes 8 [--from FOLDER]

Writes OUT/target (bf16 safetensors and config.json, as transformers reads them) and OUT/target.log.
"""
import argparse
import os
import time

import torch
import torch.nn.functional as F

import export
import network
import stream
from optim import Optimizer

PROMPT_WEIGHT = 0.2  # of the words the model only reads: stories to be summed up are prose too


@torch.compile
def loss_of(hidden, head, labels, weights):
    logits = network.softcap((hidden.bfloat16() @ head.bfloat16().T).float())
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    w = weights.flatten()
    return (each * w).sum() / w.sum()


def labels_of(batch):
    """Each place learns the next token of its own text."""
    labels = F.pad(batch.tokens, (0, 1))[:, 1:]
    same = F.pad(batch.text, (0, 1), value=-2)[:, 1:] == batch.text
    own = F.pad(batch.own, (0, 1))[:, 1:].float()
    soft = F.pad(batch.soft, (0, 1))[:, 1:]
    return labels, torch.where(own > 0, 1.0, PROMPT_WEIGHT) * (same & batch.real & ~soft)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--from", dest="start", help="folder of a target to go on from")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--pictures", type=int, default=320, help="most pictures of a batch")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--muon", type=float, default=0.02)
    parser.add_argument("--adam", type=float, default=3e-3)
    parser.add_argument("--seed", default="target")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    log = open(os.path.join(options.out, "target.log"), "a")

    def say(text):
        print(text, flush=True)
        log.write(text + "\n")
        log.flush()

    begin = time.time()
    source = stream.Stream(options.tokenizer, options.length, options.seed, options.workers)
    torch.manual_seed(1)
    device = "cuda"
    model = (network.load_target(options.start) if options.start else network.new_target()).to(device).train()
    text, tower = (sum(p.numel() for n, p in model.named_parameters() if ("vision" in n) == v and n != "lm_head.weight") for v in (False, True))
    say("%.2f M parameters of text, %.2f M of vision" % (text / 1e6, tower / 1e6))
    batches = network.prefetch(source, options.rows, options.pictures, device)
    if not options.start:
        network.standardise(model, batches().pictures[:64])
    network.compile_layers(model)
    optimizer = Optimizer(model, options.muon, options.adam)
    head = model.model.language_model.embed_tokens.weight
    steps = tokens = 0
    start = shown = None
    while True:
        batch = batches()
        with torch.autocast("cuda", torch.bfloat16):
            out = network.run(model, batch, batch.masks())[0]
        labels, weights = labels_of(batch)
        loss = loss_of(out, head, labels, weights)
        loss.backward()
        now = time.time()
        start = start or now  # the clock of the schedule begins when the first step has been compiled
        progress = (now - start) / (60 * options.minutes)
        optimizer.step(min(progress, 1.0))
        steps, tokens = steps + 1, tokens + batch.tokens.numel()
        if steps == 3 or steps % 100 == 0:
            value = loss.item()
            now = time.time()
            rate = batch.tokens.numel() * (97 if steps == 100 else 100) / (now - shown) if shown else 0
            shown = now
            say("step %5d  %6.1f M tokens  loss %.4f  %5.2f M tokens/s  %4.0f s" % (steps, tokens / 1e6, value, rate / 1e6, now - begin))
        if progress >= 1:
            break
    source.stop()
    export.save_target(model, os.path.join(options.out, "target"))
    say("%d steps, %.1f M tokens, %.0f s" % (steps, tokens / 1e6, time.time() - begin))


if __name__ == "__main__":
    main()
