#!/usr/bin/env python3
"""Makes tests/golden/media.tar.xz from the folder that the generator of golden media wrote: what the tests of every
build need, at most 3 MB of it.

    python3 media_subset.py FOLDER OUT.tar.xz        FOLDER holds e2b/, dense/ and unified/

Kept: one budget of the towers (280), pixels of every budget (as hashes), a strip, two pictures behind each other, a
short video and the assistant's guesses (dense), the files as people have them (dense). Left out: sound, and the text
decoder of `unified`, whose pictures are tested in cases.tar.xz; logits keep every fourth of their rows.
"""
import json, os, shutil, struct, subprocess, sys, tempfile

KEPT = {
    "e2b": ["photo.png", "strip.png"],
    "dense": ["photo.png", "tall.png", "strip.png", "turned.jpg", "full.jpg", "grey.jpg", "cmyk.jpg", "palette.png",
              "lossless.webp", "lossy.webp"] + [f"frame{i}.png" for i in range(5)],
    "unified": ["photo.png", "strip.png"],
}
TENSORS = {
    "e2b": ("photo280_features", "photo280_ids", "photo280_logits", "strip_features"),
    "dense": ("photo280_features", "photo280_ids", "photo280_logits", "photo280_draft_logits", "strip_features", "two_ids",
              "two_logits", "video_ids", "video_logits", "file_"),
    "unified": ("photo280_features", "strip_features"),
}
THINNED = 4  # of the rows of logits, every fourth


def read(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    return {n: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for n, e in header.items() if n != "__metadata__"}


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def thin(entry):
    dtype, shape, content = entry
    width = len(content) // shape[0]
    rows = list(range(0, shape[0], THINNED))
    return dtype, [len(rows)] + shape[1:], b"".join(content[r * width:(r + 1) * width] for r in rows)


def expected(name, path):
    tensors = {n: e for n, e in read(path).items() if n.startswith(TENSORS[name] + ("prompt_ids",))}
    for n in [n for n in tensors if n.endswith("_logits") and n + "_rows" in tensors]:
        tensors[n], tensors[n + "_rows"] = thin(tensors[n]), thin(tensors[n + "_rows"])
    return tensors


def weights(name, path):
    """Zeros, which take no room in the archive, stand for the text decoder of `unified`, so that it still opens."""
    tensors = {n: e for n, e in read(path).items() if "audio" not in n}
    if name == "unified":
        for n, (dtype, shape, content) in tensors.items():
            if "vision" not in n:
                tensors[n] = dtype, shape, bytes(len(content))
    return tensors


def main(source, out):
    with tempfile.TemporaryDirectory() as folder:
        for name, files in KEPT.items():
            to, of = os.path.join(folder, "media", name), os.path.join(source, name)
            os.makedirs(os.path.join(to, "target"))
            for file in files + ["expected.json", "target/config.json"]:
                shutil.copyfile(os.path.join(of, file), os.path.join(to, file))
            write(os.path.join(to, "expected.safetensors"), expected(name, os.path.join(of, "expected.safetensors")))
            write(os.path.join(to, "target/model.safetensors"), weights(name, os.path.join(of, "target/model.safetensors")))
            if name == "dense":
                shutil.copytree(os.path.join(of, "assistant"), os.path.join(to, "assistant"))
        subprocess.run(["tar", "--sort=name", "--mtime=2026-01-01", "--owner=0", "--group=0", "--numeric-owner", "--mode=a+rX,u+w",
                        "-C", folder, "-cf", out + ".tar", "media"], check=True)
    subprocess.run(["xz", "-9e", "-f", out + ".tar"], check=True)
    os.replace(out + ".tar.xz", out)


if __name__ == "__main__":
    main(*sys.argv[1:3])
