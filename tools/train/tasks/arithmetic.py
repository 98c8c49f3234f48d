"""Arithmetic with working: addition, subtraction, small multiplication and division, word problems, and small questions about numbers.

Every sum is on one side of the split, so that a sum asked in the evaluation was never seen.  Whether the working is
written out follows from the question: small sums and bare two-digit ones are answered at once, longer ones column by
column from the right, because one digit at a time is what a small model can get right every time.
"""
import world
from example import ask
from grammar import listing

COLUMNS = ("ones", "tens", "hundreds", "thousands", "ten thousands")


def _numbers(rng, side, op):
    """Two numbers of like sizes (short and long ones equally often) on this side of the split."""
    while True:
        x = rng.randrange(10 ** rng.choice((1, 2, 2, 2, 3, 3, 3, 4)))
        y = rng.randrange(10 ** rng.choice((1, 2, 2, 2, 3, 3, 3, 4)))
        if op == "-" and y > x and not (x < 100 and y < 100 and rng.random() < 0.15):
            x, y = y, x
        if op == "*":
            x, y = rng.randint(0, 12), rng.randint(0, 12)
        if x < 10 and y < 10 or world.split("%d%s%d" % (x, op, y)) == side:
            return x, y


def _seen(side, x, op, y):
    """Whether a sum that is only a step on the way may be written on this side."""
    return side == "eval" or x < 10 and y < 10 or world.split("%d%s%d" % (x, op, y)) == "train"


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
    if y > x:
        return "%d is smaller than %d, so the result is below zero: %d - %d = %d" % (x, y, y, x, y - x)
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


def _result(x, op, y):
    return x + y if op == "+" else x - y if op == "-" else x * y


def _answer(rng, question, x, op, y, tail, direct=False, shown=False):
    """direct: the question wants nothing but the result; shown: it asks for the working."""
    working, result = WORK[op](x, y), _result(x, op, y)
    working, line = working + "\n" if working else "", "%d %s %d = %d" % (x, op, y, result)
    said = tail.format(r=result, line=line)
    if rng.random() < 0.2:
        return ask(question, said, result, "number", working + line)
    small = op == "*" or min(x, y) < 10 and max(x, y) < 100 or direct and max(x, y) < 100
    if small and not shown:
        return ask(question, said, result, "number")
    return ask(question, working + line + ("" if tail in ("{r}", "{line}") else "\n" + said), result, "number")


# Wordings by operation; {x} and {y} stand in the order of the sentence.
BARE = ["{x} {o} {y} =", "{x} {o} {y}", "{x}{o}{y}", "{x}{o}{y}=", "{x} {o} {y} = ?", "{x} {o} {y}?"]
SHORT = ["What is {x} {o} {y}? Just the number, please.", "{x} {o} {y}, only the result.", "Give me only the result of {x} {o} {y}."]
SHOWN = ["What is {x} {o} {y}? Show your working.", "Calculate {x} {o} {y} step by step.", "Explain how to work out {x} {o} {y}.",
         "Show me how to calculate {x} {o} {y}."]
FULL = ["What is {x} {o} {y}?", "What is {x} {o} {y}?", "Calculate {x} {o} {y}.", "How much is {x} {w} {y}?", "What is {x} {w} {y}?", "Work out {x} {o} {y}.",
        "What's {x} {o} {y}?", "What's {x} {w} {y}?", "Can you calculate {x} {o} {y}?", "Please compute {x} {o} {y}.", "How much is {x} {o} {y}?",
        "Compute {x} {w} {y}.", "What does {x} {o} {y} make?", "Tell me what {x} {o} {y} is.", "I need the result of {x} {o} {y}.",
        "Do you know what {x} {w} {y} is?", "Solve {x} {o} {y}.", "What do you get for {x} {w} {y}?", "What is {x}{o}{y}?"]
OWN = {"+": ["Add {x} and {y}.", "Find the sum of {x} and {y}.", "What is the sum of {x} and {y}?", "How much are {x} and {y} together?", "Add {y} to {x}.",
             "Please add up {x} and {y}."],
       "-": ["Subtract {y} from {x}.", "Find the difference of {x} and {y}.", "What is {x} take away {y}?", "What is left when I take {y} from {x}?",
             "What is the difference between {x} and {y}?"],
       "*": ["Multiply {x} by {y}.", "Find the product of {x} and {y}.", "What is the product of {x} and {y}?", "What is {x} x {y}?"]}
WORDS = {"+": "plus", "-": "minus", "*": "times"}


def plain(rng, side):
    op = rng.choice("+++++---**")
    x, y = _numbers(rng, side, op)
    kind = rng.random()
    if kind < 0.2:
        asked, direct, shown = rng.choice(BARE), True, False
    elif kind < 0.26:
        asked, direct, shown = rng.choice(SHORT), True, False
    elif kind < 0.36:
        asked, direct, shown = rng.choice(SHOWN), False, True
    else:
        asked, direct, shown = rng.choice(OWN[op] if kind < 0.52 else FULL), False, False
    if y > x and ("difference" in asked or "left" in asked or "take away" in asked):
        asked = FULL[0]
    question = asked.format(x=x, y=y, o=op, w=WORDS[op])
    tail = "{r}" if direct and kind >= 0.2 else "{line}" if kind < 0.2 else rng.choice(("{line}", "The answer is {r}."))
    made = _answer(rng, question, x, op, y, tail, direct, shown)
    made.group = "addition" if op == "+" else "arithmetic_other"
    return made


STUFF = ["apples", "marbles", "coins", "eggs", "books", "shells", "buttons", "nuts", "stamps", "candles"]
PROBLEMS = {
    "+": ["{A} has {x} {s}. {B} gives {A} {y} more. How many {s} does {A} have now?",
          "There are {x} {s} in the {p} and {y} {s} in the {q}. How many {s} are there together?",
          "{A} finds {x} {s} on Monday and {y} on Tuesday. How many {s} is that in all?",
          "{A} collects {x} {s} and {B} collects {y}. How many do they have together?",
          "{A} counts {x} {s} in the {p}. Then {B} brings {y} more. How many {s} are there now?"],
    "-": ["{A} has {x} {s} and gives {y} to {B}. How many {s} are left?",
          "There were {x} {s} in the {p}. {A} took {y} away. How many remain?",
          "{A} has {x} {s}, {B} has {y}. How many more does {A} have?",
          "{A} needs {x} {s} and already has {y}. How many are missing?",
          "{A} had {x} {s}, but {y} of them are lost. How many {s} are left?"],
    "*": ["{A} has {x} boxes with {y} {s} in each. How many {s} is that?",
          "{x} children bring {y} {s} each. How many {s} do they bring?",
          "{A} buys {x} bags of {s}. In each bag there are {y}. How many {s} does {A} have?"]}


def problem(rng, side):
    op = rng.choice("+-*")
    x, y = _numbers(rng, side, op)
    while max(x, y) > 300 or min(x, y) < 2 or op == "-" and y >= x:
        x, y = _numbers(rng, side, op)
    one, two = world.names(rng, side, 2)
    stuff = rng.choice(STUFF)
    p, q = rng.sample(("barn", "kitchen", "cellar", "shop", "basket", "red box", "old chest"), 2)
    question = rng.choice(PROBLEMS[op]).format(A=one, B=two, x=x, y=y, s=stuff, p=p, q=q)
    noun = stuff[:-1] if _result(x, op, y) == 1 else stuff
    return _answer(rng, question, x, op, y, rng.choice(("The answer is {r} " + noun + ".", "{r} " + noun + ".", "{line}")))


def divide(rng, side):
    y, r = rng.randint(2, 10), rng.randint(1, 12)
    x = y * r
    question = rng.choice(("What is {x} / {y}?", "What is {x} divided by {y}?", "Divide {x} by {y}.", "How often does {y} go into {x}?",
                           "{x} / {y} =", "Share {x} nuts among {y} children. How many does each get?")).format(x=x, y=y)
    return ask(question, "%d * %d = %d, so %d / %d = %d" % (y, r, x, x, y, r), r, "number")


def about_numbers(rng, side):
    kind = rng.randrange(6)
    high = rng.choice((20, 100, 1000))
    x, y = rng.sample(range(1, high), 2)
    if kind == 0:
        big = rng.random() < 0.5
        question = rng.choice(("Which number is {w}, {x} or {y}?", "What is {w}: {x} or {y}?", "Which is {w}, {x} or {y}?"))
        return ask(question.format(w="larger" if big else "smaller", x=x, y=y), "%d is %s." % (max(x, y) if big else min(x, y), "larger" if big else "smaller"),
                   max(x, y) if big else min(x, y), "number")
    if kind == 1:
        odd = x % 2
        return ask(rng.choice(("Is %d even or odd?", "Is the number %d odd or even?")) % x, "%d is %s." % (x, "odd" if odd else "even"),
                   {"all": ["odd" if odd else "even"], "none": ["even" if odd else "odd"]}, "words")
    if kind == 2:
        x, step = rng.randint(1, 40), rng.randint(1, 10)
        row = [x + i * step for i in range(rng.randint(3, 5))]
        question = rng.choice(("Which number comes next: {x}?", "Continue the row with one number: {x}", "What comes next: {x}, ..."))
        return ask(question.format(x=", ".join(map(str, row))), "The step is %d, so next comes %d." % (step, row[-1] + step), row[-1] + step, "number")
    if kind == 3:
        low, up = rng.randint(1, 60), rng.choice((1, 1, -1))
        n = rng.randint(3, 9)
        row = [low + i for i in range(n)][::up]
        answer = ", ".join(map(str, row))
        return ask(rng.choice(("Count from {a} to {b}.", "Write the numbers from {a} to {b}.")).format(a=row[0], b=row[-1]), answer, answer, "exact")
    if kind == 4:
        x = rng.randint(1, 50)
        if rng.random() < 0.5 and _seen(side, x, "+", x):
            return ask(rng.choice(("What is the double of %d?", "Double %d.")) % x, "%d + %d = %d" % (x, x, 2 * x), 2 * x, "number")
        return ask(rng.choice(("What is half of %d?", "Halve %d.")) % (2 * x), "Half of %d is %d." % (2 * x, x), x, "number")
    row, steps = [rng.randint(1, 20)], []
    for _ in range(rng.randint(2, 3)):
        total, n = sum(row), rng.randint(1, 20)
        while not _seen(side, total, "+", n):
            n = rng.randint(1, 20)
        steps.append("%d + %d = %d" % (total, n, total + n))
        row.append(n)
    question = rng.choice(("What is {x}?", "Add up {x}.", "Work out {x}."))
    return ask(question.format(x=listing(map(str, row)) if question[0] == "A" else " + ".join(map(str, row))), "\n".join(steps), sum(row), "number")


def make(rng, side):
    kind = rng.random()
    return (plain if kind < 0.68 else problem if kind < 0.88 else divide if kind < 0.92 else about_numbers)(rng, side)
