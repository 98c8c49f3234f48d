"""What a task makes: a conversation, and for evaluation the expected answer with the check to judge it.

Turns are dicts: role (system, user, model, tool, or text for plain prose), content, and where wanted
thinking, tool_calls [{name, arguments}], name (of a tool's response).  The last model turn is the answer.
group: what the evaluation counts it under, where that is not the task itself.
"""


class Example:
    __slots__ = ("turns", "tools", "think", "expect", "check", "images", "group")

    def __init__(self, turns, expect=None, check=None, tools=None, think=False, images=None, group=None):
        self.turns, self.tools, self.think = turns, tools, think
        self.expect, self.check, self.images, self.group = expect, check, images, group


def user(content):
    return {"role": "user", "content": content}


def model(content, thinking=None):
    turn = {"role": "model", "content": content}
    if thinking:
        turn["thinking"] = thinking
    return turn


def system(content):
    return {"role": "system", "content": content}


def ask(question, answer, expect=None, check=None, thinking=None, before=(), **more):
    """The usual shape: a question, one answer, with thinking on exactly when there is some."""
    return Example([*before, user(question), model(answer, thinking)], expect, check, think=bool(thinking), **more)
