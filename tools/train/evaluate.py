"""Judges the target on held-out prompts, greedy: python3 evaluate.py TARGET EVAL.jsonl --tokenizer FILE [--answers FILE]

Prints the share of right answers per group and writes every answer with its verdict.
"""
import argparse
import collections
import json
import time


import checks
import generation
import network


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("data")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--answers")
    parser.add_argument("--most", type=int, default=320)
    parser.add_argument("--limit", type=int, default=4000)
    options = parser.parse_args()
    tokenizer = generation.load_tokenizer(options.tokenizer)
    rows = []
    with open(options.data, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row.get("check") and len(rows) < options.limit:
                rows.append(row)
    begin = time.time()
    model = network.load_target(options.target).cuda().eval()
    written = generation.write(model, [generation.prompt_of(tokenizer, r) for r in rows], options.most)
    right, total, wrong = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    out = open(options.answers, "w", encoding="utf-8") if options.answers else None
    for row, ids in zip(rows, written):
        group, text = row.get("group", row["task"]), tokenizer.decode(ids)
        good = checks.check(row["check"], generation.answer_of(text), row["expect"])
        right[group] += good
        total[group] += 1
        if not good and len(wrong[group]) < 3:
            wrong[group].append((row["text"][:row["prompt"]][-300:], text, row["expect"]))
        if out:
            out.write(json.dumps({"group": group, "prompt": row["text"][:row["prompt"]], "answer": text, "ids": ids, "expect": row["expect"],
                                  "right": good}, ensure_ascii=False) + "\n")
    for group, examples in wrong.items():
        for prompt, text, expect in examples:
            print("--- %s\n%s\n>>> %s\n=== %s" % (group, prompt, text, expect))
    for group in sorted(total):
        print("%-18s %5.1f %%  of %d" % (group, 100 * right[group] / total[group], total[group]))
    print("%.0f s" % (time.time() - begin))


if __name__ == "__main__":
    main()
