"""Long conversations: several independent requests one after the other, so that a model learns many turns and a long context.

The last answer is judged.  A name told at the beginning may be asked for at the end.
"""
import importlib

import dressing
from example import Example

PARTS = {"stories": 20, "story_questions": 18, "instructions": 14, "arithmetic": 18, "editing": 12, "code": 5, "json_text": 9}
_NAMES, _SHARES = list(PARTS), list(PARTS.values())
_makers = {}


def _maker(name):
    if name not in _makers:
        _makers[name] = importlib.import_module("tasks." + name).make
    return _makers[name]


def ordinary(rng, side, names=_NAMES, shares=_SHARES):
    """An example without thinking, tools, system prompt and pictures."""
    while True:
        name = rng.choices(names, shares)[0]
        example = _maker(name)(rng, side)
        if not example.think and example.turns[0]["role"] == "user":
            return dressing.typed(rng, name, example)


def size(turns):
    return sum(len(t["content"]) for t in turns) + 40 * len(turns)


def make(rng, side):
    chat = importlib.import_module("tasks.chat")
    kind = rng.random()
    # most are short; some fill a context of thousands of tokens
    if kind < 0.05:
        limit, wanted = rng.randint(9000, 13500), 99
    elif kind < 0.15:
        limit, wanted = rng.randint(4000, 9000), 99
    else:
        limit, wanted = 9000, rng.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
    parts, last, total, talked = [], None, 0, False
    if rng.random() < 0.25:
        begin, last = chat.introduction(rng, side)
        parts.append(Example(begin))
        total, talked = size(begin) + 120, True
    exchanges = len(parts) + (last is not None)
    while exchanges < wanted:
        if not talked and rng.random() < 0.2:
            talked, example = True, chat.make(rng, side, plain=True)
        else:
            example = ordinary(rng, side)
        total += size(example.turns)
        if total > limit:
            break
        parts.append(example)
        exchanges += sum(t["role"] == "user" for t in example.turns)
    if last:
        parts.append(last)
    return dressing.join(parts, parts[-1]) if parts else ordinary(rng, side)


def around(rng, side, seen):
    """Ordinary talk before or after a picture or a clip."""
    others = [ordinary(rng, side, ["arithmetic", "editing", "stories", "json_text"], [4, 3, 2, 1]) for _ in range(rng.choice((1, 1, 2)))]
    others = [x for x in others if size(x.turns) < 2500]
    if rng.random() < 0.5 or not others:
        return dressing.join([*others, seen], seen, seen.group)
    return dressing.join([seen, *others], others[-1])
