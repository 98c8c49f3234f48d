#!/usr/bin/env python3
"""Checks that each room of src/ includes only what its place allows.

The slip_room lines of CMakeLists.txt say on which rooms a room depends. Static libraries do not notice an include of
a header from another room, so this does. Three rules:
  - a file includes only its own room and those it depends on, directly or through others;
  - a dependency never points up (the levels below, from docs/architecture.md);
  - the executors under src/backend do not include each other, and public headers include nothing of src/.
"""
import pathlib
import re
import sys

LEVELS = [
    {"base", "net"},
    {"tensor"},
    {"model", "checkpoint", "synth", "reference"},
    {"kv", "backend"},
    {"speculate", "sample", "grammar", "text", "media"},
    {"engine", "hub"},
    {"session"},
    {"conformance", "server"},
    {"cli"},
]
EXECUTORS = ["cpu", "cuda"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def rooms_of(text):
    """Room -> rooms it names after DEPENDS, in the order of CMakeLists.txt."""
    rooms = {}
    for name, arguments in re.findall(r"^\s*slip_room\(\s*(\w+)([^)]*)\)", text, re.MULTILINE):
        words = arguments.split()
        after = words[words.index("DEPENDS") + 1 :] if "DEPENDS" in words else []
        rooms[name] = [word for word in after if re.fullmatch(r"[a-z_]+", word)]
    return rooms


def reachable(rooms, name):
    seen, todo = {name}, [name]
    while todo:
        for other in rooms.get(todo.pop(), []):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def wrong_lines(rooms):
    level = {room: i for i, names in enumerate(LEVELS) for room in names}
    for room, depends in rooms.items():
        if room not in level:
            yield f"CMakeLists.txt: room {room} has no level; give it one in scripts/check_rooms.py"
        for other in depends:
            if other not in rooms:
                yield f"CMakeLists.txt: {room} depends on {other}, which is no room"
            elif level.get(other, 0) > level.get(room, 0):
                yield f"CMakeLists.txt: {room} may not depend on {other}, which stands above it"


def wrong_includes(root, rooms):
    folders = {path.name for path in (root / "src").iterdir() if path.is_dir()}
    for room in sorted(folders - rooms.keys()):
        yield f"src/{room} has no slip_room line in CMakeLists.txt"
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu"}:
            continue
        where = path.relative_to(root)
        room = where.parts[1]
        allowed = reachable(rooms, room)
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            parts = included.split("/")
            if len(parts) > 1 and parts[0] in folders and parts[0] not in allowed:
                yield f"{where} includes {included}: {room} does not depend on {parts[0]}"
            own = where.parts[2] if room == "backend" and len(where.parts) > 3 else None
            if own in EXECUTORS and parts[0] == "backend" and len(parts) > 2:
                if parts[1] in EXECUTORS and parts[1] != own:
                    yield f"{where} includes {included}: one executor may not include another"
    for path in sorted((root / "include").rglob("*.h")):
        for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if not included.startswith("slipstream/"):
                yield f"{path.relative_to(root)} includes {included}: a public header stands alone"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    rooms = rooms_of((root / "CMakeLists.txt").read_text(encoding="utf-8"))
    wrong = [*wrong_lines(rooms), *wrong_includes(root, rooms)]
    for line in wrong:
        print(line)
    if not rooms:
        print("CMakeLists.txt has no slip_room lines")
    print(f"rooms: {len(rooms)} looked at, {len(wrong)} wrong lines")
    return 1 if wrong or not rooms else 0


if __name__ == "__main__":
    sys.exit(main())
