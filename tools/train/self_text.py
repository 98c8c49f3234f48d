"""What the target itself writes, greedily, as rows to train drafters on: python3 self_text.py TARGET OUT.npz --tokenizer FILE

A drafter is judged against the target's own text, which greedily decoded differs from the text the target learned from.
"""
import argparse
import random
import time

import numpy

import generation
import make_data
import network
import stream


def prompts(tokenizer, count, seed):
    """Prompts of the training side without pictures; plain prose is cut after a few words."""
    rng, out = random.Random(seed), []
    for name, example in make_data.examples(rng.randrange(1 << 30), "train", 0):
        row = make_data.record(name, example, "eval")
        if row.get("images"):
            continue
        ids = tokenizer.encode(row["text"][:row["prompt"]])
        if row["prompt"] <= len("<bos>"):
            ids = tokenizer.encode(row["text"])[:rng.randint(4, 24)]
        if len(ids) <= 700:
            out.append((ids, []))
        if len(out) == count:
            return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("out")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--prompts", type=int, default=16384)
    parser.add_argument("--most", type=int, default=320)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--length", type=int, default=4096)
    options = parser.parse_args()
    begin = time.time()
    tokenizer = generation.load_tokenizer(options.tokenizer)
    model = network.load_target(options.target).cuda().eval().bfloat16()
    asked = prompts(tokenizer, options.prompts, "self")
    written = generation.write(model, asked, options.most, options.batch)
    texts = [(p + w, [0] * len(p) + [1] * len(w), []) for (p, _), w in zip(asked, written)]
    random.Random(1).shuffle(texts)
    packed = list(stream.rows(texts, options.length))
    numpy.savez(options.out, tokens=numpy.stack([r[0] for r in packed]), own=numpy.stack([r[1] for r in packed]))
    print("%d texts, %.2f M own tokens, %d rows, %.0f s" % (len(texts), sum(map(len, written)) / 1e6, len(packed), time.time() - begin))


if __name__ == "__main__":
    main()
