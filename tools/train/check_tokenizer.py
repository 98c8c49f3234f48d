"""Compares a tokenizer.json with the engine: python3 check_tokenizer.py SLIPSTREAM FOLDER SHARD [-n COUNT]

The texts of a shard and some awkward ones go through `slipstream tokenize`: the ids must be those of the plain
reading in train_tokenizer.py, and the ids must give the text back.
"""
import argparse
import json
import os
import subprocess
import tempfile

from train_tokenizer import Tokenizer

AWKWARD = ["héllo wörld\t日本 🙂   x\n\n\n\n\n y    z 12345 <bos>a<|turn>user\nHi", " leading space", "def f(x):\n        return x",
           "      six", "\n\nafter", "<|tool_call>call:f{a:<|\"|>x<|\"|>}<tool_call|><|tool_response>", "1 + 22 = 333"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slipstream")
    parser.add_argument("folder")
    parser.add_argument("shard")
    parser.add_argument("-n", type=int, default=100)
    options = parser.parse_args()
    with open(os.path.join(options.folder, "tokenizer.json"), encoding="utf-8") as file:
        plain = Tokenizer(json.load(file))
    with open(options.shard, encoding="utf-8") as lines:
        # The command drops a newline at the end of a file.
        texts = AWKWARD + [json.loads(line)["text"].rstrip("\n") for _, line in zip(range(options.n), lines)]
    command = [options.slipstream, "tokenize", "-m", options.folder]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        for text in texts:
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
            ids = subprocess.run(command + ["--ids", "-f", file.name], capture_output=True, text=True, check=True).stdout
            back = subprocess.run(command + ["--decode", ids], capture_output=True, text=True, check=True).stdout
            if list(map(int, ids.split())) != plain.encode(text) or back.removesuffix("\n") != text:
                raise SystemExit("engine and plain reading differ on %r" % text)
    print("%d texts: the engine gives the same ids, and the text back" % len(texts))


if __name__ == "__main__":
    main()
