"""Arithmetic with working: addition, subtraction, small multiplication, and word problems.

Every sum is on one side of the split, so that a sum asked in the evaluation was never seen.
"""
import world
from example import ask

COLUMNS = ("ones", "tens", "hundreds", "thousands", "ten thousands")


def _numbers(rng, side, op):
    """Two numbers of like sizes (short and long ones equally often) on this side of the split."""
    while True:
        x = rng.randrange(10 ** rng.choice((1, 2, 2, 3, 3, 4)))
        y = rng.randrange(10 ** rng.choice((1, 2, 2, 3, 3, 4)))
        if op == "-" and y > x:
            x, y = y, x
        if op == "*":
            x, y = rng.randint(0, 12), rng.randint(0, 12)
        if x < 10 and y < 10 or world.split("%d%s%d" % (x, op, y)) == side:
            return x, y


def working_add(x, y):
    """Column by column from the right; the carry is always named."""
    steps, carry, a, b = [], 0, str(x)[::-1], str(y)[::-1]
    for i in range(max(len(a), len(b))):
        p, q = int(a[i]) if i < len(a) else 0, int(b[i]) if i < len(b) else 0
        total = p + q + carry
        steps.append("%s: %d + %d%s = %d, write %d%s" % (COLUMNS[i], p, q, " + 1" if carry else "", total, total % 10,
                                                        ", carry 1" if total > 9 else ""))
        carry = total // 10
    if carry:
        steps.append("%s: write 1" % COLUMNS[len(steps)])
    return "\n".join(steps)


def working_sub(x, y):
    steps, borrow, a, b = [], 0, str(x)[::-1], str(y)[::-1]
    for i in range(len(a)):
        p, q = int(a[i]), int(b[i]) if i < len(b) else 0
        top = p - borrow
        need = top < q
        steps.append("%s: %d%s - %d%s = %d, write %d" % (COLUMNS[i], p, " - 1" if borrow else "", q, " + 10" if need else "",
                                                      top - q + 10 * need, (top - q) % 10))
        if need:
            steps[-1] += ", borrow 1"
        borrow = int(need)
    return "\n".join(steps)


def working_mul(x, y):
    """The multiples of one factor up to the other; nothing where that says no more than the result."""
    if y > 10:
        x, y = y, x
    if y > 10 or y < 2:
        return ""
    return ", ".join(str(x * i) for i in range(1, y + 1))


WORK = {"+": working_add, "-": working_sub, "*": working_mul}
WORDS = {"+": ("plus", "{x} and {y}", "the sum of"), "-": ("minus", None, "the difference of"), "*": ("times", None, "the product of")}


def _result(x, op, y):
    return x + y if op == "+" else x - y if op == "-" else x * y


def _answer(rng, question, x, op, y, tail):
    """With thinking on the working is thought; otherwise it is written out, or left away for small sums."""
    working, result = WORK[op](x, y), _result(x, op, y)
    working, line = working + "\n" if working else "", "%d %s %d = %d" % (x, op, y, result)
    mode = rng.random()
    if mode < 0.3:
        return ask(question, tail.format(r=result, line=line), result, "number", working + line)
    easy = op == "*" or max(x, y) < 100
    if mode < 0.5 and easy and "working" not in question:
        return ask(question, tail.format(r=result, line=line), result, "number")
    end = "" if tail in ("{r}", "{line}") else "\n" + tail.format(r=result, line=line)
    return ask(question, working + line + end, result, "number")


def plain(rng, side):
    op = rng.choice("+++--*")
    x, y = _numbers(rng, side, op)
    word, _, noun = WORDS[op]
    question = rng.choice(("What is {x} {op} {y}?", "{x} {op} {y} =", "Calculate {x} {op} {y}.", "How much is {x} {w} {y}?",
                           "What is {x} {w} {y}?", "Work out {x} {op} {y}.", "Find {n} {x} and {y}.", "{x} {op} {y}",
                           "What is {x} {op} {y}? Show your working.")).format(x=x, y=y, op=op, w=word, n=noun)
    return _answer(rng, question, x, op, y, rng.choice(("{r}", "{line}", "The answer is {r}.")))


STUFF = ["apples", "marbles", "coins", "eggs", "books", "shells", "buttons", "nuts", "stamps", "candles"]
PROBLEMS = {
    "+": ["{A} has {x} {s}. {B} gives {A} {y} more. How many {s} does {A} have now?",
          "There are {x} {s} in the {p} and {y} {s} in the {q}. How many {s} are there together?",
          "{A} finds {x} {s} on Monday and {y} on Tuesday. How many is that in all?",
          "{A} collects {x} {s} and {B} collects {y}. How many do they have together?"],
    "-": ["{A} has {x} {s} and gives {y} to {B}. How many {s} are left?",
          "There were {x} {s} in the {p}. {A} took {y} away. How many remain?",
          "{A} has {x} {s}, {B} has {y}. How many more does {A} have?",
          "{A} needs {x} {s} and already has {y}. How many are missing?"],
    "*": ["{A} has {x} boxes with {y} {s} in each. How many {s} is that?",
          "{x} children bring {y} {s} each. How many {s} do they bring?",
          "{A} buys {x} bags of {s}. In each bag there are {y}. How many {s} does {A} have?"]}


def problem(rng, side):
    op = rng.choice("+-*")
    x, y = _numbers(rng, side, op)
    while max(x, y) > 300 or min(x, y) < 2:
        x, y = _numbers(rng, side, op)
    one, two = world.names(rng, side, 2)
    stuff = rng.choice(STUFF)
    p, q = rng.sample(("barn", "kitchen", "cellar", "shop", "basket", "red box", "old chest"), 2)
    question = rng.choice(PROBLEMS[op]).format(A=one, B=two, x=x, y=y, s=stuff, p=p, q=q)
    return _answer(rng, question, x, op, y, rng.choice(("The answer is {r} " + stuff + ".", "{r} " + stuff + ".", "{line}")))


def make(rng, side):
    return (plain if rng.random() < 0.7 else problem)(rng, side)
