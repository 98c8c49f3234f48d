"""Builds a tokenizer.json of Gemma 4's construction: python3 train_tokenizer.py OUT DATA... [--size 6144]

BPE with explicit merges over text in which every space is "▁", bytes `<0xNN>` for what is unknown, control tokens
at the front.  Words are counted once and merged with incremental pair counts, so that it takes seconds.
Digits never merge, so that a number is read digit by digit; newlines merge only among themselves.  The space before a
capital letter stays alone, so that a name has the same tokens after a space, a quote or a control token, and can be copied.
DATA: shards of make_data.py.  With --check the result is applied to the data and must give it back.
"""
import argparse
import collections
import heapq
import json
import os
import re
import time

SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
            "<tool_response|>", '<|"|>', "<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|image>", "<image|>",
            "<|audio>", "<audio|>", "<|image|>", "<|audio|>", "<|video|>"]
SPECIAL_PATTERN = re.compile("|".join(re.escape(s) for s in sorted(SPECIALS, key=len, reverse=True)))
# A small word with the space before it, a word with a capital, one digit, a run of newlines or spaces, one sign.
WORD = re.compile(r"▁?(?![A-ZÄÖÜÉ])[^\W\d_]+|[^\W\d_]+|\d|\n+|▁+|[^\w\s▁]|\w|\s")
ASCII = [chr(c) for c in range(32 + 1, 127)]
EXTRA = ["\t", "▁", "é", "ä", "ö", "ü", "ß", "à", "è", "ç", "ñ", "É", "Ä", "Ö", "Ü", "—", "–", "’", "‘", "“", "”", "…", "°", "×", "€"]


def count_words(paths):
    counts = collections.Counter()
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                for part in SPECIAL_PATTERN.split(json.loads(line)["text"]):
                    counts.update(WORD.findall(part.replace(" ", "▁")))
    return counts


class Merger:
    """Words as lists of symbols, with the count of every adjacent pair and the words that hold it."""

    def __init__(self, counts):
        self.words = [(list(word), n) for word, n in sorted(counts.items()) if len(word) > 1]
        self.pairs, self.where = collections.Counter(), collections.defaultdict(set)
        for i, (symbols, n) in enumerate(self.words):
            for pair in zip(symbols, symbols[1:]):
                self.pairs[pair] += n
                self.where[pair].add(i)
        self.heap = [(-n, pair) for pair, n in self.pairs.items()]
        heapq.heapify(self.heap)

    def best(self):
        """The most frequent pair, the alphabet deciding between equals; None when no pair is left."""
        while self.heap:
            n, pair = heapq.heappop(self.heap)
            if self.pairs.get(pair, 0) == -n and n < 0:
                return pair
        return None

    def merge(self, pair):
        touched = set()
        for i in self.where.pop(pair):
            symbols, n = self.words[i]
            for old in zip(symbols, symbols[1:]):
                self.pairs[old] -= n
                touched.add(old)
            symbols[:] = join(symbols, pair)
            for new in zip(symbols, symbols[1:]):
                self.pairs[new] += n
                self.where[new].add(i)
                touched.add(new)
        for p in touched:
            if self.pairs[p] > 0:
                heapq.heappush(self.heap, (-self.pairs[p], p))
            else:
                del self.pairs[p]
        self.pairs.pop(pair, None)


def join(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def train(counts, size):
    """The vocabulary in order and the merges."""
    letters = sorted({c for word in counts for c in word} - set(ASCII) - set(EXTRA) - {"\n"})
    vocabulary = SPECIALS + ["<0x%02X>" % b for b in range(256)] + ["\n"] + EXTRA + ASCII + letters
    known, merges = set(vocabulary), []

    def add(pair):
        merges.append(list(pair))
        if pair[0] + pair[1] not in known:
            known.add(pair[0] + pair[1])
            vocabulary.append(pair[0] + pair[1])

    # Gemma's runs of newlines and spaces, which code and paragraphs use.
    for unit in "\n▁":
        for left, right in ((1, 1), (2, 2), (2, 1), (4, 4)):
            add((unit * left, unit * right))
    merger = Merger({w: n for w, n in counts.items() if w.strip("\n▁")})
    while len(vocabulary) < size:
        pair = merger.best()
        if pair is None:
            break
        merger.merge(pair)
        add(pair)
    return vocabulary, merges


def tokenizer_json(vocabulary, merges):
    added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, s in enumerate(SPECIALS)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
            "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                         {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(vocabulary)}, "merges": merges}}


class Tokenizer:
    """A plain reading of the same file, by the rules of the engine: merges by rank over whole segments."""

    def __init__(self, data):
        self.vocab = data["model"]["vocab"]
        self.ranks = {tuple(m): i for i, m in enumerate(data["model"]["merges"])}
        self.tokens = {i: t for t, i in self.vocab.items()}
        self.cache = {}

    def _word(self, word):
        symbols = list(word)
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda p: self.ranks.get(p, 1 << 30))
            if best not in self.ranks:
                break
            symbols = join(symbols, best)
        out = []
        for s in symbols:
            out += [self.vocab[s]] if s in self.vocab else [self.vocab["<0x%02X>" % b] for b in s.encode()]
        return out

    def encode(self, text):
        """No merge crosses the words of WORD, so that they can be cached."""
        out, at = [], 0
        for special in [*SPECIAL_PATTERN.finditer(text), None]:
            for word in WORD.findall(text[at:special.start() if special else len(text)].replace(" ", "▁")):
                if word not in self.cache:
                    self.cache[word] = self._word(word)
                out += self.cache[word]
            if special:
                out.append(self.vocab[special.group()])
                at = special.end()
        return out

    def decode(self, ids):
        out = bytearray()
        for token in map(self.tokens.__getitem__, ids):
            byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
            out += bytes([int(byte.group(1), 16)]) if byte else token.replace("▁", " ").encode()
        return out.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder for tokenizer.json")
    parser.add_argument("data", nargs="+")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    begin = time.time()
    counts = count_words(options.data)
    vocabulary, merges = train(counts, options.size)
    data = tokenizer_json(vocabulary, merges)
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "tokenizer.json"), "w", encoding="utf-8") as out:
        json.dump(data, out, ensure_ascii=False, indent=1)
        out.write("\n")
    print("%d tokens, %d merges from %d different words, %.1f s" % (len(vocabulary), len(merges), len(counts), time.time() - begin))
    if options.check:
        check(Tokenizer(data), options.data[0])


def check(tokenizer, path, limit=2000):
    chars = ids = 0
    with open(path, encoding="utf-8") as lines:
        for _, line in zip(range(limit), lines):
            text = json.loads(line)["text"]
            encoded = tokenizer.encode(text)
            if tokenizer.decode(encoded) != text:
                raise SystemExit("the tokenizer does not give this text back: " + text)
            chars, ids = chars + len(text), ids + len(encoded)
    print("round trip holds; %.2f characters per token" % (chars / ids))


if __name__ == "__main__":
    main()
