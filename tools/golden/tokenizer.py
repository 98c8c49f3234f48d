#!/usr/bin/env python3
"""The golden tokenizer of tests/golden/tokenizer: a small one of Gemma 4's construction, and awkward strings with the ids and the
decoded text that Hugging Face tokenizers gives.

    python3 tools/golden/tokenizer.py OUT                              the kept tokenizer and strings, encoded anew
    python3 tools/golden/tokenizer.py OUT --train FILE... [--vocab N]  a new tokenizer, and strings from its texts

The first form must give the bytes that are kept.
"""
import argparse
import json
import os
import random

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "tokenizer")
MARK = "\u2581"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
           "<tool_response|>", '<|"|>', "<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|image>", "<image|>",
           "<|audio>", "<audio|>", "<|image|>", "<|audio|>", "<|video|>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LONGEST_BREAK = 8  # runs of 2 to so many line breaks are tokens
AWKWARD = [
    "", " ", "  ", "a", "Hello world", " leading", "trailing ", "two  spaces", "tab\tand\nnewline", "\n\n\n", "\n" * 11, "line\r\nline",
    "na\u00efve caf\u00e9", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "a\u0301e\u0301", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 family", "\U0001f642" * 3, "\u0645\u0631\u062d\u0628\u0627", MARK + " already there", "x" * 200,
    "<bos>text<eos>", "<|turn>user\nhi<turn|>\n<|turn>model\n", '<|tool_call>call:f{a:<|"|>x y<|"|>}<tool_call|>', "almost <|turn but not",
    "<0x41> literal", "0123456789 3.14159 1e-6", "def f(x):\n    return x**2  # code\n", '{"key": [1, 2, {"n": null}]}', "\0\1\x7f",
    "\ufb01 ligature", "\U0001d4b3 math", "zero\u200bwidth", "<|image|><|image|> two images", "mixed <|think|>\nthought"]


def merges_of(text, vocab):
    """Vocabulary and merges, learnt from words as SentencePiece's trainer does, with runs of line breaks put in front."""
    words = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="never")
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=SPECIAL + BYTES, initial_alphabet=[MARK, "\n", "\t"], show_progress=False)
    words.train_from_iterator([line for line in text.split("\n") if line.strip()], trainer)
    model = json.loads(words.to_str())["model"]
    pieces, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
    breaks = [("\n" * (count - 1), "\n") for count in range(2, LONGEST_BREAK + 1)]
    for left, right in breaks:
        pieces.setdefault(left + right, len(pieces))
    return pieces, breaks + [merge for merge in merges if merge not in breaks]


def train(text, vocab):
    """BPE with byte fallback over whole texts, spaces as U+2581."""
    pieces, merges = merges_of(text, vocab)
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def strings(text, seed):
    """Fixed ones, stretches of the text, and characters from many scripts."""
    numbers, out = random.Random(seed), list(AWKWARD)
    for _ in range(40):
        length = numbers.randint(1, 60)
        start = numbers.randrange(max(1, len(text) - length))
        out.append(text[start:start + length])
    ranges = ((32, 126), (0xA0, 0x2FFF), (0x1F300, 0x1F6FF))
    for _ in range(20):
        out.append("".join(chr(numbers.randint(*numbers.choice(ranges))) for _ in range(numbers.randint(1, 20))))
    return out


def write_cases(tokenizer, texts, folder):
    cases = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    with open(os.path.join(folder, "cases.json"), "w") as file:
        json.dump(cases, file, ensure_ascii=True, indent=0)
    changed = sum(case["decoded"] != case["text"] for case in cases)
    print(f"{folder}: {tokenizer.get_vocab_size()} tokens, {len(cases)} strings, {changed} of them decode to another text")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--train", nargs="+", metavar="FILE", help="text to learn from")
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=4)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    if options.train:
        text = "\n".join(open(file, encoding="utf-8").read() for file in options.train)
        tokenizer, texts = train(text, options.vocab), strings(text, options.seed)
    else:
        tokenizer = Tokenizer.from_file(os.path.join(KEPT, "tokenizer.json"))
        with open(os.path.join(KEPT, "cases.json")) as file:
            texts = [case["text"] for case in json.load(file)]
    tokenizer.save(os.path.join(options.out, "tokenizer.json"))
    write_cases(tokenizer, texts, options.out)


if __name__ == "__main__":
    main()
