"""Judges models/tiny with the C++ engine: python3 evaluate_engine.py BUILD/slipstream MODEL EVAL.jsonl [--hf ANSWERS.jsonl] [--card FILE]

Needs nothing but Python.  Greedy answers are judged per group as by evaluate.py; with --hf they are also compared with the ids that
transformers wrote, with a cache of bf16 as usual and with one of floats as transformers has it.  Pictures are drawn, written as PNG files and shown.  Then tokens per pass of every drafter, at temperature 0 and 1, per group, and the first ten stories.  With --card the
figures replace those between the marks of a model card.  --pictures judges the pictures alone; the exit code says whether all were right.
"""
import argparse
import collections
import json
import os
import struct
import subprocess
import tempfile
import zlib

import checks
import scenes

MARKS = "<!-- figures -->", "<!-- end of figures -->"
STORIES = 10
PICTURE_SIDE = 384  # as the model was trained
VISIBLE_END = ("<turn|>", "<|tool_response>", "<eos>")
SPEEDS = ("stories", "prose", "json", "copying", "editing", "story_questions", "addition", "code", "tool_call")


def answer_of(text):
    """What is judged: no thoughts, no stop token at the end."""
    text = text.rsplit("<channel|>", 1)[-1]
    for end in VISIBLE_END:
        text = text.removesuffix(end)
    return text


def write_png(path, rows):
    """`rows` of RGB bytes."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))


def draw(row, folder, number):
    """The files of a row's pictures."""
    paths = []
    for i, scene in enumerate(row.get("images", [])):
        paths.append(os.path.join(folder, "%d-%d.png" % (number, i)))
        write_png(paths[-1], scenes.render(scene, pixels=PICTURE_SIDE))
    return paths


def run(program, model, rows, most, *options):
    with tempfile.TemporaryDirectory() as folder:
        source, result = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        with open(source, "w", encoding="utf-8") as out:
            for number, row in enumerate(rows):
                line = {"prompt": row["text"][:row["prompt"]]}
                if row.get("images"):
                    line["images"] = draw(row, folder, number)
                out.write(json.dumps(line) + "\n")
        subprocess.run([program, "generate", "-m", model, "--prompts", source, "--output", result, "-n", str(most), "-q", *options], check=True)
        with open(result, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def judge(rows, replies, say):
    right, total = collections.Counter(), collections.Counter()
    for row, reply in zip(rows, replies):
        if row.get("check"):
            right[row["group"]] += checks.check(row["check"], answer_of(reply["text"]), row["expect"])
            total[row["group"]] += 1
    say("| group | right | of |\n|---|---|---|")
    for group in sorted(total):
        say("| %s | %.1f %% | %d |" % (group, 100 * right[group] / total[group], total[group]))
    return right == total


def same_ids(rows, replies, path):
    """(answers with the ids transformers wrote, answers compared); a difference is possible only where two tokens are nearly equal."""
    with open(path, encoding="utf-8") as lines:
        other = {(a["group"], a["prompt"]): a["ids"] for a in map(json.loads, lines)}
    both = [(other.get((row["group"], row["text"][:row["prompt"]])), reply["tokens"]) for row, reply in zip(rows, replies)]
    return sum(a == b for a, b in both), sum(a is not None for a, _ in both)


def passes(rows, replies):
    """Tokens per pass by group: all tokens over all rounds.  The first token is the prompt's."""
    tokens, rounds = collections.Counter(), collections.Counter()
    for row, reply in zip(rows, replies):
        tokens[row["group"]] += len(reply["tokens"]) - 1
        rounds[row["group"]] += reply["rounds"]
    return {g: tokens[g] / rounds[g] for g in tokens if rounds[g]}


def stories(rows, replies, say):
    """The first ones of the evaluation set, as they come."""
    told = [(row, reply) for row, reply in zip(rows, replies) if row["group"] == "stories"][:STORIES]
    say("\nThe first ten stories of the evaluation set, greedy, unselected:")
    for row, reply in told:
        asked = row["text"][:row["prompt"]].split("<|turn>user\n")[-1].split("<turn|>")[0]
        say("\n**%s**\n\n> %s" % (asked.replace("\n", " "), answer_of(reply["text"]).replace("\n", "\n> ")))


def into_card(path, lines):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:begin] + "\n\n" + "\n".join(lines) + "\n\n" + text[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--hf", help="answers of evaluate.py to compare with")
    parser.add_argument("--card", help="model card whose figures are to be replaced")
    parser.add_argument("--pictures", action="store_true", help="pictures alone")
    parser.add_argument("--most", type=int, default=320)
    options = parser.parse_args()
    lines = []

    def say(text):
        print(text, flush=True)
        lines.append(text)

    with open(options.data, encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if all(scene["frames"] == 1 for scene in row.get("images", []))]
    if options.pictures:
        rows = [row for row in rows if row.get("images")]
        replies = run(options.program, options.model, rows, options.most, "--temp", "0")
        raise SystemExit(0 if judge(rows, replies, say) else 1)
    plain = run(options.program, options.model, rows, options.most, "--temp", "0", "--draft-kind", "none")
    judge(rows, plain, say)
    if options.hf:
        exact = run(options.program, options.model, rows, options.most, "--temp", "0", "--draft-kind", "none", "--kv", "f32")
        say("\nThe same ids as transformers: %d of %d answers; with a cache of floats (`--kv f32`) %d of %d."
            % (*same_ids(rows, plain, options.hf), *same_ids(rows, exact, options.hf)))
    few = [row for row in rows if row["group"] in SPEEDS]
    beside = options.model.rstrip("/")
    kinds = {"assistant, depth 4": ["--draft-kind", "mtp", "--draft-depth", "4", "--draft-model", beside + "-assistant"],
             "DFlash, block 8": ["--draft-kind", "dflash", "--draft-depth", "7", "--draft-model", beside + "-dflash"],
             "auto": ["--draft-model", beside + "-assistant", "--parallel", "1"]}
    say("\n| tokens per pass | %s |\n|---|%s" % (" | ".join(SPEEDS), "---|" * len(SPEEDS)))
    for temperature in (0, 1):
        for kind, more in kinds.items():
            replies = run(options.program, options.model, few, options.most, "--temp", str(temperature), *more)
            if temperature == 0 and [r["tokens"] for r in replies] != [p["tokens"] for row, p in zip(rows, plain) if row["group"] in SPEEDS]:
                raise SystemExit("%s changed the text: that must never be" % kind)
            got = passes(few, replies)
            say("| %s, temperature %d | %s |" % (kind, temperature, " | ".join("%.2f" % got[g] if g in got else "-" for g in SPEEDS)))
    stories(rows, plain, say)
    if options.card:
        into_card(options.card, lines)


if __name__ == "__main__":
    main()
