"""The kinds of text, and their shares of the training mix."""
import importlib

WEIGHTS = {"stories": 22, "story_questions": 16, "instructions": 12, "arithmetic": 14, "editing": 8, "code": 5,
           "json_text": 7, "tool_use": 8, "chat": 5, "pictures": 8, "clips": 4}


def load(name):
    """The module of a task; it has make(rng, side) -> Example."""
    return importlib.import_module("tasks." + name)
