"""Judges models/tiny with the C++ engine: python3 evaluate_engine.py BUILD/slipstream MODEL EVAL.jsonl [--hf ANSWERS.jsonl]

Needs nothing but Python.  Greedy answers are judged per group as by evaluate.py; with --hf they are also compared with the ids that
transformers wrote.  Then tokens per pass of every drafter, at temperature 0 and 1, per group.
"""
import argparse
import collections
import json
import os
import subprocess
import tempfile

import checks

VISIBLE_END = ("<turn|>", "<|tool_response>", "<eos>")
SPEEDS = ("stories", "prose", "json", "copying", "editing", "story_questions", "addition", "code", "tool_call")


def answer_of(text):
    """What is judged: no thoughts, no stop token at the end."""
    text = text.rsplit("<channel|>", 1)[-1]
    for end in VISIBLE_END:
        text = text.removesuffix(end)
    return text


def run(program, model, rows, most, *options):
    with tempfile.TemporaryDirectory() as folder:
        source, result = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        with open(source, "w", encoding="utf-8") as out:
            for row in rows:
                out.write(json.dumps({"prompt": row["text"][:row["prompt"]]}) + "\n")
        subprocess.run([program, "generate", "-m", model, "--prompts", source, "--output", result, "-n", str(most), "-q", *options], check=True)
        with open(result, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def judge(rows, replies):
    right, total = collections.Counter(), collections.Counter()
    for row, reply in zip(rows, replies):
        if row.get("check"):
            right[row["group"]] += checks.check(row["check"], answer_of(reply["text"]), row["expect"])
            total[row["group"]] += 1
    print("| group | right | of |\n|---|---|---|")
    for group in sorted(total):
        print("| %s | %.1f %% | %d |" % (group, 100 * right[group] / total[group], total[group]))


def compare(rows, replies, path):
    """Ids against those of transformers; a difference is possible only where two tokens are nearly equal."""
    with open(path, encoding="utf-8") as lines:
        other = {(a["group"], a["prompt"]): a["ids"] for a in map(json.loads, lines)}
    same = seen = 0
    for row, reply in zip(rows, replies):
        ids = other.get((row["group"], row["text"][:row["prompt"]]))
        if ids is not None:
            seen += 1
            same += ids == reply["tokens"]
    print("%d of %d answers have the same ids as transformers'" % (same, seen))


def passes(rows, replies):
    """Tokens per pass by group: all tokens over all rounds."""
    tokens, rounds = collections.Counter(), collections.Counter()
    for row, reply in zip(rows, replies):
        for group in (row["group"], "all"):
            tokens[group] += len(reply["tokens"])
            rounds[group] += reply["rounds"]
    return {g: tokens[g] / rounds[g] for g in tokens if rounds[g]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--hf", help="answers of evaluate.py to compare with")
    parser.add_argument("--most", type=int, default=320)
    options = parser.parse_args()
    with open(options.data, encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if not row.get("images")]
    plain = run(options.program, options.model, rows, options.most, "--temp", "0", "--draft-kind", "none")
    judge(rows, plain)
    if options.hf:
        compare(rows, plain, options.hf)
    few = [row for row in rows if row["group"] in SPEEDS]
    beside = options.model.rstrip("/")
    kinds = {"assistant, depth 4": ["--draft-kind", "mtp", "--draft-depth", "4", "--draft-model", beside + "-assistant"],
             "DFlash, block 8": ["--draft-kind", "dflash", "--draft-depth", "7", "--draft-model", beside + "-dflash"],
             "auto": ["--draft-model", beside + "-assistant"]}
    print("\n| tokens per pass | %s |\n|---|%s" % (" | ".join(SPEEDS), "---|" * len(SPEEDS)))
    for temperature in (0, 1):
        for kind, more in kinds.items():
            replies = run(options.program, options.model, few, options.most, "--temp", str(temperature), *more)
            if temperature == 0 and [r["tokens"] for r in replies] != [p["tokens"] for row, p in zip(rows, plain) if row["group"] in SPEEDS]:
                raise SystemExit("%s changed the text: that must never be" % kind)
            got = passes(few, replies)
            print("| %s, temperature %d | %s |" % (kind, temperature, " | ".join("%.2f" % got[g] if g in got else "-" for g in SPEEDS)))


if __name__ == "__main__":
    main()
