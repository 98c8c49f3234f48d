"""Writes training text: python3 make_data.py OUT --tokens N --seed S [--eval] [--task NAME]

OUT/train-0000.jsonl ... (or eval-...), one text per line:
  task, text, spans (characters to learn, [start, end)), images (scenes, in the order of their markers);
with --eval also group (what it is counted under), prompt (its length in characters), expect and check.
A shard depends on the seed and its number alone, so the number of processes changes nothing.

    python3 make_data.py eval.jsonl --each 40
writes one file of held-out prompts instead, as many of each group, all different.
"""
import argparse
import collections
import json
import multiprocessing
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import render_chat
import tasks

CHARS_PER_TOKEN = 3.44  # of the tokenizer that train_tokenizer.py makes of this text
SHARD_TOKENS = 500_000


def examples(seed, side, shard, only=None):
    """The endless stream of (task, Example) of one shard."""
    rng = random.Random("%d/%s/%d" % (seed, side, shard))
    names = only or list(tasks.WEIGHTS)
    weights = [tasks.WEIGHTS[n] for n in names]
    while True:
        for name in rng.choices(names, weights, k=256):
            yield name, tasks.example(name, rng, side)


def record(name, example, side):
    text, spans, prompt = render_chat.render_sample(example)
    if example.turns[0]["role"] == "text":  # prose is continued after its first sentence
        prompt = text.find(". ", prompt) + 1 or prompt
    row = {"task": name, "text": text, "spans": spans}
    if example.images:
        row["images"] = example.images
    if side == "eval":
        row.update(group=example.group, prompt=prompt, expect=example.expect, check=example.check)
    return row


def write_shard(job):
    folder, seed, side, shard, chars, only = job
    counts, sizes = collections.Counter(), collections.Counter()
    path = os.path.join(folder, "%s-%04d.jsonl" % (side, shard))
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
    with open(path + ".part", "w", encoding="utf-8") as out:
        for name, example in examples(seed, side, shard, only):
            row = record(name, example, side)
            out.write(encode(row) + "\n")
            counts[name] += 1
            sizes[name] += len(row["text"])
            chars -= len(row["text"])
            if chars <= 0:
                break
    os.replace(path + ".part", path)
    return counts, sizes


GROUPS = ["addition", "arithmetic_other", "story_questions", "json", "tool_call", "tool_answer", "pictures", "clips", "stories", "prose", "copying",
          "editing", "instructions", "code", "chat", "mixed"]


def fixed_set(seed, each):
    """The same number of held-out rows of every group, group by group."""
    found, prompts = {name: [] for name in GROUPS}, set()
    stream = examples(seed, "eval", 0)
    while any(len(rows) < each for rows in found.values()):
        name, example = next(stream)
        rows = found[example.group]
        if len(rows) < each:
            row = record(name, example, "eval")
            del row["spans"]
            key = row["text"] if row["check"] is None else row["text"][:row["prompt"]] + json.dumps(row.get("images"))
            if key not in prompts:
                prompts.add(key)
                rows.append(row)
    return [row for rows in found.values() for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--tokens", type=float, default=2e6, help="about how many tokens (text length / %.1f)" % CHARS_PER_TOKEN)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eval", action="store_true", help="held-out names, pairs and sums, with expected answers")
    parser.add_argument("--task", action="append", choices=list(tasks.WEIGHTS), help="this task alone; may be given again")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--each", type=int, help="write OUT as one file with so many held-out rows of every group")
    options = parser.parse_args()
    if options.each:
        with open(options.out, "w", encoding="utf-8") as out:
            for row in fixed_set(options.seed, options.each):
                out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
        return
    side = "eval" if options.eval else "train"
    os.makedirs(options.out, exist_ok=True)
    shards = max(1, round(options.tokens / SHARD_TOKENS))
    chars = int(options.tokens * CHARS_PER_TOKEN / shards)
    jobs = [(options.out, options.seed, side, i, chars, options.task) for i in range(shards)]
    counts, sizes, begin = collections.Counter(), collections.Counter(), time.time()
    with multiprocessing.Pool(min(options.processes, shards)) as pool:
        for more, size in pool.imap_unordered(write_shard, jobs):
            counts.update(more)
            sizes.update(size)
    seconds, total, length = time.time() - begin, sum(counts.values()), sum(sizes.values())
    for name in counts:
        print("%-16s %9d texts  %5.1f %% of the characters" % (name, counts[name], 100 * sizes[name] / length))
    print("%d texts, %.1f M characters, about %.1f M tokens in %d shards, %.1f s: %.0f texts per minute" % (
        total, length / 1e6, length / CHARS_PER_TOKEN / 1e6, shards, seconds, 60 * total / seconds))


if __name__ == "__main__":
    main()
