"""Tools in Gemma 4's syntax: choosing a tool and its arguments, answering from results, and doing without."""
import world
from example import Example, model, system, user
from grammar import a, listing
from render_chat import call


def _tool(name, description, properties, required=None):
    return {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": required or list(properties)}}


def _string(description, enum=None):
    return {"type": "string", "description": description, **({"enum": enum} if enum else {})}


def _integer(description):
    return {"type": "integer", "description": description}


# Other names for tools and their parameters, so that a declaration has to be read and cannot be known by heart.
NAMES = {"get_weather": ["get_weather", "weather", "weather_forecast", "get_current_weather", "check_weather"],
         "calculate": ["calculate", "calculator", "compute", "do_math"], "set_reminder": ["set_reminder", "remind_me", "add_reminder", "create_reminder"],
         "find_object": ["find_object", "where_is", "locate", "search_object"], "phone_number": ["phone_number", "get_phone_number", "lookup_phone", "find_number"],
         "order_food": ["order_food", "shop", "buy_food", "place_order"], "next_ride": ["next_ride", "find_ride", "timetable", "get_departure"]}
KEYS = {"get_weather": {"town": ["town", "city", "location", "place"], "days": ["days", "days_ahead"]},
        "calculate": {"a": ["a", "x", "first"], "b": ["b", "y", "second"], "operation": ["operation", "op"]},
        "set_reminder": {"text": ["text", "message", "what"], "hour": ["hour", "time"]}, "find_object": {"object": ["object", "item", "thing"], "owner": ["owner", "person"]},
        "phone_number": {"name": ["name", "person", "first_name"]}, "order_food": {"items": ["items", "foods", "products"], "express": ["express", "today"]},
        "next_ride": {"from": ["from", "start", "origin"], "to": ["to", "destination", "end"], "by": ["by", "means"]}}


def renamed(rng, tool, arguments):
    """The tool and the arguments of a call of it under other names."""
    if rng.random() < 0.5:
        return tool, arguments
    name = rng.choice(NAMES[tool["name"]])
    keys = {k: rng.choice(v) for k, v in KEYS[tool["name"]].items()}
    p = tool["parameters"]
    other = {"name": name, "description": tool["description"], "parameters": {
        "type": "object", "properties": {keys[k]: v for k, v in p["properties"].items()}, "required": [keys[k] for k in p["required"]]}}
    return other, {keys[k]: v for k, v in arguments.items()}


def weather(rng, side):
    town, days = world.town(rng), rng.randint(1, 7)
    tool = _tool("get_weather", "Weather forecast of a town", {"town": _string("Name of the town"), "days": _integer("Days ahead")}, ["town"])
    kind = rng.choice(world.WEATHER)
    t = world.temperature(rng, kind)
    if rng.random() < 0.4:
        return tool, rng.choice(("What will the weather be in {t} in {d} days?", "Forecast for {t}, {d} days ahead, please.")).format(t=town, d=days), \
            {"town": town, "days": days}, {"sky": kind, "temperature": t}, "In %d days it will be %s in %s, at %d degrees." % (days, kind, town, t), [kind, str(t)]
    return tool, rng.choice(("What is the weather in {t}?", "Is it nice in {t} today?", "Do I need a coat in {t}?", "Weather in {t}?", "How is the weather in {t}?",
                        "What is the weather like in {t}?", "Tell me the weather in {t}.", "Check the weather in {t}.")).format(t=town), \
        {"town": town}, {"sky": kind, "temperature": t}, "It is %s in %s, at %d degrees." % (kind, town, t), [kind, str(t)]


def calculator(rng, side):
    x, y = rng.randint(12, 9999), rng.randint(12, 9999)
    op, name = rng.choice((("+", "add"), ("-", "subtract"), ("*", "multiply")))
    r = x + y if op == "+" else x - y if op == "-" else x * y
    tool = _tool("calculate", "Calculates with two whole numbers", {"a": _integer("First number"), "b": _integer("Second number"),
                                                                   "operation": _string("What to do", ["add", "subtract", "multiply"])})
    question = rng.choice(("What is {x} {o} {y}?", "Please calculate {x} {o} {y}.", "{x} {o} {y}, please.", "Work out {x} {o} {y}.", "{x} {o} {y}", "How much is {x} {o} {y}?")).format(x=x, y=y, o=op)
    return tool, question, {"a": x, "b": y, "operation": name}, {"result": r}, "%d %s %d = %d" % (x, op, y, r), [str(r)]


def remind(rng, side):
    who, hour = world.name(rng, side, rng.choice(("she", "he"))), rng.randint(6, 22)
    what = rng.choice(("call {w}", "meet {w}", "write to {w}", "bring {w} some {f}", "visit {w}")).format(w=who, f=rng.choice(world.FOODS))
    tool = _tool("set_reminder", "Sets a reminder for today", {"text": _string("What to remind of"), "hour": _integer("Hour from 0 to 23")})
    question = rng.choice(("Remind me to {x} at {h} o'clock.", "At {h} o'clock I want to {x}. Set a reminder.", "Please remind me at {h} o'clock to {x}.")).format(x=what, h=hour)
    return tool, question, {"text": what, "hour": hour}, {"ok": True}, "Done. I will remind you at %d o'clock to %s." % (hour, what), [what, str(hour)]


def find(rng, side):
    who = world.name(rng, side, rng.choice(("she", "he")))
    thing = world.paired(rng, side, who, world.TREASURES)
    place = rng.choice(world.PLACE_LIST)
    tool = _tool("find_object", "Finds out where someone's object is", {"object": _string("The object"), "owner": _string("Whose it is")})
    question = rng.choice(("Where is {w}'s {t}?", "Can you find the {t} of {w}?", "{w} is looking for a {t}. Where is it?")).format(w=who, t=thing)
    where = "%s the %s" % (world.PLACES[place], place)
    return tool, question, {"object": thing, "owner": who}, {"place": where}, "The %s of %s is %s." % (thing, who, where), [place]


def phone(rng, side):
    who = world.name(rng, side, rng.choice(("she", "he")))
    number = "".join(str(rng.randint(0, 9)) for _ in range(6))
    tool = _tool("phone_number", "Looks up a phone number", {"name": _string("First name")})
    question = rng.choice(("What is the phone number of {w}?", "I need {w}'s number.", "How can I call {w}?")).format(w=who)
    return tool, question, {"name": who}, {"number": number}, "The number of %s is %s." % (who, number), [number]


def shop(rng, side):
    items = rng.sample(world.FOODS, rng.randint(1, 3))
    n = rng.randint(2, 60)
    tool = _tool("order_food", "Orders food from the village shop", {
        "items": {"type": "array", "description": "What to order", "items": {"type": "string"}}, "express": {"type": "boolean", "description": "Deliver today"}})
    fast = rng.random() < 0.5
    question = rng.choice(("Order {x}{f}.", "I would like to order {x}{f}.", "Please get me {x}{f}.")).format(x=listing(items), f=", to be delivered today" if fast else "")
    return tool, question, {"items": items, "express": fast}, {"price": n}, "I have ordered %s. It costs %d coins." % (listing(items), n), [str(n)]


def ride(rng, side):
    one, two = world.towns(rng, 2)
    hour, minute = rng.randint(6, 21), rng.choice((0, 15, 30, 45))
    at = "%d:%02d" % (hour, minute)
    means = rng.choice(("train", "bus", "boat"))
    tool = _tool("next_ride", "Time of the next ride between two towns", {"from": _string("Start"), "to": _string("End"), "by": _string("Means", ["train", "bus", "boat"])})
    question = rng.choice(("When does the next {m} go from {a} to {b}?", "I want to go from {a} to {b} by {m}. When can I leave?",
                           "Next {m} to {b} from {a}?")).format(m=means, a=one, b=two)
    return tool, question, {"from": one, "to": two, "by": means}, {"departure": at}, "The next %s from %s to %s leaves at %s." % (means, one, two, at), [at]


KINDS = [weather, weather, calculator, remind, find, phone, shop, ride]
DIFFERENT = KINDS[1:]
SMALL_TALK = [("Hello!", "Hello! What can I do for you?"), ("Thank you!", "You are welcome."),
              ("Who are you?", "I am Slipstream Tiny, a small demonstration model. I can use the tools you give me."),
              ("How are you?", "I am well, thank you. How can I help?"), ("What can you do?", "I can use the tools you give me, tell stories and work with texts.")]
HEADS = ["You are a helpful assistant.", "Use the tools when they help.", "Answer briefly.", "You are an assistant with tools.", "You are Slipstream Tiny."]


def _call(*calls):
    return {"role": "model", "content": "", "tool_calls": [{"name": tool["name"], "arguments": arguments} for tool, arguments in calls]}


def _thought(tool, arguments):
    parts = ("%s = %s" % (k, listing(v) if isinstance(v, list) else str(v).lower() if isinstance(v, bool) else v) for k, v in sorted(arguments.items()))
    return "I need the tool %s with %s." % (tool["name"], ", ".join(parts))


def _written(asked):
    """The calls as the check wants them."""
    return [call(c)[len("<|tool_call>"):-len("<tool_call|>")] for c in asked["tool_calls"]]


def _twice(rng, side, head):
    """One question that needs the same tool for two towns or two people."""
    if rng.random() < 0.5:
        one, two = world.towns(rng, 2)
        tool, key, results = weather(rng, side)[0], "town", [{"sky": k, "temperature": world.temperature(rng, k)} for k in rng.sample(world.WEATHER, 2)]
        question = rng.choice(("What is the weather in {a} and in {b}?", "Compare the weather in {a} and {b}.", "How is the weather in {a} and {b}?"))
        answer = " ".join("It is %s in %s, at %d degrees." % (r["sky"], t, r["temperature"]) for t, r in zip((one, two), results))
        words = [str(r["temperature"]) for r in results]
    else:
        one, two = world.names(rng, side, 2)
        tool, key, results = phone(rng, side)[0], "name", [{"number": "".join(str(rng.randint(0, 9)) for _ in range(6))} for _ in range(2)]
        question = rng.choice(("I need the phone numbers of {a} and {b}.", "What are the numbers of {a} and {b}?"))
        answer = " ".join("The number of %s is %s." % (n, r["number"]) for n, r in zip((one, two), results))
        words = [r["number"] for r in results]
    tool, names = renamed(rng, tool, {key: key})
    key = next(iter(names))
    asked = _call((tool, {key: one}), (tool, {key: two}))
    turns = [*head, user(question.format(a=one, b=two)), asked]
    if rng.random() < 0.5:
        return Example(turns, _written(asked), "tool_call", tools=[tool], group="tool_call")
    turns += [{"role": "tool", "name": tool["name"], "content": r} for r in results]
    return Example(turns + [model(answer)], {"all": words}, "words", tools=[tool])


def _earlier(rng, side, kind, tool):
    """A question that this tool, under its present names, has already answered."""
    plain, question, arguments, result, answer, _ = kind(rng, side)
    names = dict(zip(plain["parameters"]["properties"], tool["parameters"]["properties"]))
    return [user(question), _call((tool, {names[k]: v for k, v in arguments.items()})),
            {"role": "tool", "name": tool["name"], "content": result}, model(answer)]


def make(rng, side):
    head = [system(rng.choice(HEADS))] if rng.random() < 0.3 else []
    if rng.random() < 0.06:
        return _twice(rng, side, head)
    kind = rng.choice(KINDS)
    tool, question, arguments, result, answer, keys = kind(rng, side)
    tool, arguments = renamed(rng, tool, arguments)
    tools, kinds = [tool], {kind}
    for other in rng.sample([k for k in DIFFERENT if k is not kind], rng.choice((0, 1, 1, 2))):
        kinds.add(other)
        extra = other(rng, side)
        tools.append(renamed(rng, extra[0], extra[2])[0])
    rng.shuffle(tools)
    if rng.random() < 0.08:
        q, said = rng.choice(SMALL_TALK)
        return Example([*head, user(q), model(said)], said, "exact", tools=tools)
    if rng.random() < 0.08:
        other = rng.choice([k for k in DIFFERENT if k not in kinds])
        said = "I am sorry, I have no tool for that."
        return Example([*head, user(other(rng, side)[1]), model(said)], said, "exact", tools=tools)
    before = list(head)
    if rng.random() < 0.2:
        q, said = rng.choice(SMALL_TALK)
        before += [user(q), model(said)]
    think = rng.random() < 0.3
    asked = _call((tool, arguments))
    if think:
        asked["thinking"] = _thought(tool, arguments)
    elif rng.random() < 0.15:
        before += _earlier(rng, side, kind, tool)
    turns = [*before, user(question), asked]
    if rng.random() < 0.5:
        return Example(turns, _written(asked), "tool_call", tools=tools, think=think, group="tool_call")
    if rng.random() < 0.06:
        result, answer, keys = {"error": "not found"}, "I am sorry, the tool found nothing.", ["sorry"]
    turns += [{"role": "tool", "name": tool["name"], "content": result}, model(answer)]
    return Example(turns, {"all": keys}, "words", tools=tools, think=think)
