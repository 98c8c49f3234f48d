#!/usr/bin/env python3
"""Writes src/text/jinja/unicode_tables.inc: classes and case of characters as this Python has them.

    tools/unicode_tables.py > src/text/jinja/unicode_tables.inc

A class is a list of ranges (first, last). A case mapping is a list of (first, last, step, distance): every
step-th character from first to last is mapped to itself plus distance. Mappings to several characters are
listed one by one.
"""
import sys
import unicodedata

ALL = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def ranges(test):
    out = []
    for c in ALL:
        if not test(c):
            continue
        if out and out[-1][1] == ord(c) - 1:
            out[-1][1] = ord(c)
        else:
            out.append([ord(c), ord(c)])
    return out


def table(name, rows):
    print(f"constexpr uint32_t {name}[][{len(rows[0])}] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(str(x) for x in row) + "},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};")


def simple(mapping):
    pairs = [(ord(c), ord(mapping(c))) for c in ALL if len(mapping(c)) == 1 and mapping(c) != c]
    out = []
    for a, b in pairs:
        d = b - a
        if out and out[-1][3] == d:
            first, last, step, _ = out[-1]
            if first == last and a - first in (1, 2):
                out[-1] = [first, a, a - first, d]
                continue
            if first != last and a - last == step:
                out[-1][1] = a
                continue
        out.append([a, a, 1, d])
    return [[f, l, s, d & 0xFFFFFFFF] for f, l, s, d in out]


def special(mapping):
    rows = []
    for c in ALL:
        m = mapping(c)
        if len(m) > 1:
            rows.append([ord(c)] + [ord(x) for x in m] + [0] * (3 - len(m)))
    return rows


print(f"// Made by tools/unicode_tables.py from Unicode {unicodedata.unidata_version}. Not for reading.")
print("// clang-format off")
table("kUnprintable", ranges(lambda c: not c.isprintable()))
table("kAlpha", ranges(str.isalpha))
table("kDecimal", ranges(str.isdecimal))
table("kDigit", ranges(lambda c: c.isdigit() and not c.isdecimal()))
table("kNumeric", ranges(lambda c: c.isnumeric() and not c.isdigit()))
table("kUpper", ranges(str.isupper))
table("kLower", ranges(str.islower))
table("kTitle", ranges(lambda c: unicodedata.category(c) == "Lt"))
table("kUncased", ranges(lambda c: unicodedata.category(c) in ("Mn", "Me", "Cf", "Lm", "Sk") or c in "'.:\u00b7\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a"))
table("kToUpper", simple(str.upper))
table("kToLower", simple(str.lower))
table("kToTitle", [r for r in simple(lambda c: c.title())])
table("kToFold", [[ord(c), ord(c.casefold())] for c in ALL if len(c.casefold()) == 1 and c.casefold() != c.lower()])
table("kToUpperMany", special(str.upper))
table("kToTitleMany", special(str.title))
table("kToFoldMany", special(str.casefold))
print("// clang-format on")
