"""Judging answers: each check takes the model's answer and what was expected, and says yes or no."""
import collections
import json
import re


def _norm(text):
    return re.sub(r"\s+", " ", text.strip())


def exact(answer, expect):
    return _norm(answer) == _norm(expect)


def number(answer, expect):
    """The last number of the answer is the result."""
    found = re.findall(r"-?\d+", answer)
    return bool(found) and int(found[-1]) == int(expect)


def has_words(text, words):
    return re.search(r"(?<!\w)" + re.escape(words.lower()) + r"(?!\w)", text.lower()) is not None


def words(answer, expect):
    """Holds every word group in expect['all'], one of 'any' and none of 'none'.

    'begin', 'end' and 'case' are what a system prompt asked for; 'shapes' is how many shapes may be named.
    """
    text = answer.strip()
    return (all(has_words(text, w) for w in expect["all"]) and not any(has_words(text, w) for w in expect.get("none", ()))
            and (not expect.get("any") or any(has_words(text, w) for w in expect["any"]))
            and text.startswith(expect.get("begin", "")) and text.rstrip(".!?").endswith(expect.get("end", ""))
            and ("case" not in expect or text == getattr(text, expect["case"])())
            and ("shapes" not in expect or len(re.findall(r"\b(?:circle|square|triangle|star)", text)) == expect["shapes"]))


def overlap(answer, expect):
    """A free answer (a summary): most of its words are the expected ones, and the other way round."""
    def bag(text):
        return collections.Counter(re.findall(r"\w+", text.lower()))
    one, two = bag(answer), bag(expect)
    return 2 * sum((one & two).values()) >= 0.7 * (sum(one.values()) + sum(two.values()))


def members(answer, expect):
    """As many different items as asked for, all of the asked kind."""
    found = [w for w in expect["of"] if has_words(answer, w)]
    return len(found) == expect["count"] == len(re.findall(r"\w+", re.sub(r"\band\b", "", answer)))


def json_equal(answer, expect):
    """The answer is JSON and nothing else (a code fence around it is allowed), with the expected value."""
    text = re.sub(r"^```(?:json)?\n(.*)\n```$", r"\1", answer.strip(), flags=re.S)
    try:
        return json.loads(text) == expect
    except ValueError:
        return False


def tool_call(answer, expect):
    """The calls, written in Gemma 4's syntax, are the expected text (template order makes it unique)."""
    calls = re.findall(r"<\|tool_call>(.*?)<tool_call\|>", answer, flags=re.S)
    return calls == expect


def lines(answer, expect):
    """The same lines in the same order."""
    return [_norm(x) for x in answer.strip().splitlines()] == [_norm(x) for x in expect]


def story(answer, expect):
    """A cheap test of a story: the asked words occur, it ends a sentence, and it does not repeat itself."""
    sentences = re.findall(r"[^.!?]+[.!?]", answer)
    return (all(has_words(answer, w) for w in expect["all"]) and len(sentences) >= expect.get("least", 4)
            and len(set(sentences)) >= 0.7 * len(sentences) and answer.rstrip()[-1:] in '.!?"')


CHECKS = {f.__name__: f for f in (exact, number, words, overlap, members, json_equal, tool_call, lines, story)}


def check(name, answer, expect):
    return CHECKS[name](answer, expect)
