"""Tiny Python functions: written on request, explained, or traced to their result.

Each entry: name stem, what it does, signature, body lines, explanation, and a call maker for tracing.
`{k}` is a small number, so that the same shape occurs with many constants.
"""
import re

import world
from example import ask


ARGUMENTS = {"n": ("n", "n", "x", "value", "number", "amount", "size", "k"), "text": ("text", "text", "word", "s", "name", "title", "line"),
             "numbers": ("numbers", "numbers", "values", "items", "scores", "prices", "ages", "sizes")}
WORDS = world.ANIMALS + world.THING_LIST + world.FOODS
SHORT = [w for w in WORDS if len(w) < 6]


def _numbers(rng, n=3):
    return [rng.randint(0, 12) for _ in range(n)]


FUNCTIONS = [
    ("add_{k}", "adds {k} to a number", "n", ["return n + {k}"], lambda r, k: ((n := r.randint(0, 50)), n + k)),
    ("times_{k}", "multiplies a number by {k}", "n", ["return n * {k}"], lambda r, k: ((n := r.randint(0, 12)), n * k)),
    ("is_even", "says whether a number is even", "n", ["return n % 2 == 0"], lambda r, k: ((n := r.randint(0, 99)), n % 2 == 0)),
    ("is_longer_than_{k}", "says whether a text is longer than {k} letters", "text", ["return len(text) > {k}"],
     lambda r, k: ((t := r.choice(WORDS)), len(t) > k)),
    ("total", "adds up all numbers of a list", "numbers", ["result = 0", "for n in numbers:", "    result += n", "return result"],
     lambda r, k: ((x := _numbers(r)), sum(x))),
    ("largest", "finds the largest number of a list", "numbers",
     ["best = numbers[0]", "for n in numbers:", "    if n > best:", "        best = n", "return best"],
     lambda r, k: ((x := _numbers(r, 4)), max(x))),
    ("smallest", "finds the smallest number of a list", "numbers",
     ["best = numbers[0]", "for n in numbers:", "    if n < best:", "        best = n", "return best"],
     lambda r, k: ((x := _numbers(r, 4)), min(x))),
    ("count_above_{k}", "counts the numbers above {k} in a list", "numbers",
     ["count = 0", "for n in numbers:", "    if n > {k}:", "        count += 1", "return count"],
     lambda r, k: ((x := _numbers(r, 5)), sum(n > k for n in x))),
    ("backwards", "turns a text around", "text", ["return text[::-1]"],
     lambda r, k: ((t := r.choice(SHORT)), t[::-1])),
    ("first_{k}", "returns the first {k} letters of a text", "text", ["return text[:{k}]"],
     lambda r, k: ((t := r.choice(WORDS)), t[:k])),
    ("only_even", "keeps the even numbers of a list", "numbers", ["return [n for n in numbers if n % 2 == 0]"],
     lambda r, k: ((x := _numbers(r, 5)), [n for n in x if n % 2 == 0])),
    ("squares", "squares every number of a list", "numbers", ["return [n * n for n in numbers]"],
     lambda r, k: ((x := _numbers(r)), [n * n for n in x])),
    ("shout", "turns a text into capital letters", "text", ["return text.upper()"],
     lambda r, k: ((t := r.choice(WORDS)), t.upper())),
    ("repeat_{k}", "repeats a text {k} times", "text", ["return text * {k}"],
     lambda r, k: ((t := r.choice(("ab", "la", "ho", "x"))), t * k)),
    ("countdown", "lists the numbers from n down to 1", "n", ["result = []", "while n > 0:", "    result.append(n)", "    n -= 1", "return result"],
     lambda r, k: ((n := r.randint(1, 6)), list(range(n, 0, -1)))),
    ("count_vowels", "counts the vowels of a text", "text",
     ["count = 0", "for letter in text:", "    if letter in \"aeiou\":", "        count += 1", "return count"],
     lambda r, k: ((t := r.choice(WORDS)), sum(c in "aeiou" for c in t))),
]
LINES = {"result = 0": "starts with a result of 0", "for n in numbers:": "goes through the numbers", "result += n": "adds each one to the result",
         "best = numbers[0]": "takes the first number as the best", "if n > best:": "keeps a number that is larger",
         "if n < best:": "keeps a number that is smaller", "count = 0": "starts counting at 0", "count += 1": "counts it",
         "for letter in text:": "goes through the letters", "if letter in \"aeiou\":": "looks whether a letter is a vowel",
         "result = []": "starts with an empty list", "while n > 0:": "works as long as n is above 0", "n -= 1": "makes n smaller by one",
         "result.append(n)": "puts n into the list"}


def _source(rng):
    stem, does, arg, body, run = rng.choice(FUNCTIONS)
    k = rng.randint(2, 9)
    name, does, body = stem.format(k=k), does.format(k=k), [line.replace("{k}", str(k)) for line in body]
    renamed = rng.choice(ARGUMENTS[arg])
    own = renamed if renamed != arg else None
    plain = body
    body = [re.sub(r"\b%s\b" % arg, renamed, line) for line in body]
    arg = renamed
    return name, does, own, plain, run, k, "def %s(%s):\n%s" % (name, arg, "\n".join("    " + line for line in body))


def make(rng, side):
    name, does, argument, body, run, k, source = _source(rng)
    fenced = "```python\n%s\n```" % source
    kind = rng.random()
    if kind < 0.45:
        question = rng.choice(("Write a Python function that {d}.", "Write a Python function called {n} that {d}.",
                               "I need a small Python function. It {d}.", "Python function that {d}, please.", "Show me Python code that {d}.", "Write Python code for a function that {d}.", "How do I write a function in Python that {d}?"))
        if argument:
            question += rng.choice((" Call the argument {a}.", " Its argument is {a}."))
        return ask(question.format(d=does, n=name, a=argument), fenced, fenced, "exact")
    if kind < 0.7:
        steps = [LINES[line.strip()] for line in body if line.strip() in LINES]
        answer = "The function %s." % does
        if steps:
            answer += " It " + ", ".join(steps) + " and returns the result."
        question = rng.choice(("What does this function do?\n\n{s}", "Explain this code:\n\n{s}"))
        return ask(question.format(s=fenced), answer, {"all": [does]}, "words")
    value, result = run(rng, k)
    answer = "`%s(%r)` returns `%r`." % (name, value, result)
    thought = "The function %s. The argument is %r, so the result is %r." % (does, value, result)
    question = "%s\n\nWhat does %s(%r) return?" % (fenced, name, value)
    return ask(question, answer, answer, "exact", thought if rng.random() < 0.35 else None)
