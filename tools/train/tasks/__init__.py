"""The kinds of text, and their shares of the training mix."""
import importlib

import dressing

WEIGHTS = {"stories": 21, "story_questions": 17, "instructions": 12, "arithmetic": 16, "editing": 8, "code": 5,
           "json_text": 9, "tool_use": 9, "chat": 7, "pictures": 8, "clips": 4, "mixed": 15}
SEEN = ("pictures", "clips")
# What the evaluation counts a task under, where the example itself does not say.
GROUPS = {"arithmetic": "arithmetic_other", "json_text": "instructions", "tool_use": "tool_answer"}


def load(name):
    """The module of a task; it has make(rng, side) -> Example."""
    return importlib.import_module("tasks." + name)


def example(name, rng, side):
    """One example of a task as it goes into the data."""
    made = dressing.typed(rng, name, load(name).make(rng, side))
    if name in SEEN and rng.random() < 0.2:
        made = load("mixed").around(rng, side, made)
    made.group = made.group or ("prose" if made.turns[0]["role"] == "text" else GROUPS.get(name, name))
    return dressing.thinking(rng, name, dressing.prompted(rng, made))
