#!/usr/bin/env python3
"""Compares golden cases made anew with those that are kept.

    python3 tools/golden/compare.py NEW KEPT [--tolerance X]

NEW and KEPT are folders, or KEPT a .tar.xz.  Only cases that NEW has are compared, and all of each.  Weights, ids, pixels and
drafted tokens must be the same bits; computed floats may differ by the tolerance, because their last bits depend on the
processor and the number of threads.  Exit code 1 when anything differs by more.  Needs numpy.
"""
import argparse
import hashlib
import json
import os
import sys
import tarfile
import tempfile

import numpy as np

DTYPES = {"F32": np.float32, "BF16": np.uint16, "I64": np.int64, "I32": np.int32, "U32": np.uint32, "U8": np.uint8}
VERSIONS = {"transformers", "transformers_version"}  # of what made a file: not compared


def read_tensors(path):
    """name -> array; bfloat16 as its bits."""
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        out[name] = np.frombuffer(data[end + first:end + last], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return out


def compare_tensors(new, kept, tolerance, report):
    a, b = read_tensors(new), read_tensors(kept)
    for name in sorted(a.keys() ^ b.keys()):
        report(name, "only in the new one" if name in a else "missing in the new one")
    for name in sorted(a.keys() & b.keys()):
        if a[name].shape != b[name].shape or a[name].dtype != b[name].dtype:
            report(name, f"{a[name].dtype} {a[name].shape} instead of {b[name].dtype} {b[name].shape}")
        elif a[name].tobytes() == b[name].tobytes():
            report(name)
        elif a[name].dtype != np.float32:
            report(name, f"{int((a[name] != b[name]).sum())} of {a[name].size} values differ")
        else:
            worst = float(np.abs(a[name].astype(np.float64) - b[name]).max())
            report(name, f"differs by {worst:.2g}" if not worst <= tolerance else None, worst)


def compare_figures(new, kept, tolerance, report, path=""):
    if isinstance(new, dict) and isinstance(kept, dict):
        for key in sorted((new.keys() | kept.keys()) - VERSIONS):
            compare_figures(new.get(key), kept.get(key), tolerance, report, f"{path}.{key}" if path else key)
    elif isinstance(new, float) and isinstance(kept, float) and new != kept:
        worst = abs(new - kept)
        report(path, f"is {new} instead of {kept}" if not worst <= tolerance else None, worst)
    else:
        report(path, None if new == kept else f"is {str(new)[:70]} instead of {str(kept)[:70]}")


def same_pixels(new, kept):
    """Pictures whose files differ, because they were packed by another version, but whose pixels are the same."""
    try:
        from PIL import Image
    except ImportError:
        return False
    return Image.open(new).convert("RGB").tobytes() == Image.open(kept).convert("RGB").tobytes()


def compare_file(new, kept, tolerance, report):
    if not os.path.exists(new):
        return report("", "was not made")
    with open(new, "rb") as a, open(kept, "rb") as b:
        if hashlib.sha256(a.read()).digest() == hashlib.sha256(b.read()).digest():
            return report("")
    if not os.path.basename(new).startswith("expected."):
        tolerance = -1  # what goes into a case has no rounding of its own
    if new.endswith(".safetensors"):
        return compare_tensors(new, kept, tolerance, report)
    if new.endswith(".json"):
        with open(new) as a, open(kept) as b:
            return compare_figures(json.load(a), json.load(b), tolerance, report)
    if new.endswith((".png", ".webp")) and same_pixels(new, kept):
        return report("")
    report("", "differs")


def cases_under(folder):
    """Folders of cases, by their own name."""
    return {os.path.basename(path): path for path, _, files in os.walk(folder) if "expected.json" in files}


def compare_case(name, new, kept, tolerance):
    """Prints what differs; true when nothing does by more than the tolerance."""
    same, close, worst, faults = 0, 0, 0.0, []
    for folder, _, files in sorted(os.walk(kept)):
        for file in sorted(files):
            part = os.path.relpath(os.path.join(folder, file), kept)

            def report(what, fault=None, distance=None):
                nonlocal same, close, worst
                if fault:
                    faults.append(f"{part} {what}".strip() + f": {fault}")
                elif distance is None:
                    same += 1
                else:
                    close, worst = close + 1, max(worst, distance)

            compare_file(os.path.join(new, part), os.path.join(folder, file), tolerance, report)
    print(f"{name}: {same} the same, {close} within {worst:.2g}, {len(faults)} different")
    for fault in faults:
        print(f"    {fault}")
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("kept", metavar="KEPT")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as unpacked:
        kept = options.kept
        if not os.path.isdir(kept):
            with tarfile.open(kept) as archive:
                archive.extractall(unpacked, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(unpacked)
            kept = unpacked
        made, known = cases_under(options.new), cases_under(kept)
        if not made or made.keys() - known.keys():
            sys.exit(f"{options.new}: has the cases {sorted(made)}; compared can be {sorted(known)}")
        good = [compare_case(name, made[name], known[name], options.tolerance) for name in sorted(made)]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
