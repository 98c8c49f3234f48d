"""JSON from a description, and a description from JSON."""
import json

import world
from example import ask
from grammar import a, cap, listing


def person(rng, side):
    who = world.name(rng, side, rng.choice(("she", "he")))
    data = {"name": who, "age": rng.randint(4, 90), "job": rng.choice(world.JOBS), "town": world.town(rng)}
    text = rng.choice((
        "{name} is {age} years old, works as {ajob} and lives in {town}.", "In {town} lives {name}, {ajob} of {age} years.",
        "Meet {name}, aged {age}. {name} comes from {town} and is {ajob}.", "{ajob} called {name}, {age} years old, lives in {town}."))
    return data, cap(text.format(ajob=a(data["job"]), **data))


def pet(rng, side):
    owner, kind = world.name(rng, side, "he"), world.animal(rng)
    data = {"pet": world.pet_name(rng, side), "kind": kind, "colour": rng.choice(world.COLOURS), "owner": owner, "friendly": rng.random() < 0.6}
    good = "friendly" if data["friendly"] else "not friendly"
    text = rng.choice(("{owner} has {a} called {pet}. It is {good}.", "{pet} is {a} and belongs to {owner}. {pet} is {good}."))
    return data, text.format(a=a(data["colour"] + " " + kind), good=good, **data)


def shopping(rng, side):
    who = world.name(rng, side, "she")
    items = rng.sample(world.FOODS, rng.randint(2, 4))
    data = {"buyer": who, "items": [{"name": x, "amount": rng.randint(1, 9)} for x in items]}
    parts = listing("%d %s of %s" % (i["amount"], "bag" if i["amount"] == 1 else "bags", i["name"]) for i in data["items"])
    return data, rng.choice(("%s buys %s.", "On the list of %s are %s.")) % (who, parts)


def event(rng, side):
    day = rng.choice("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
    guests = world.names(rng, side, rng.randint(1, 4))
    data = {"event": rng.choice(world.EVENTS).split(" ", 1)[1], "day": day, "hour": rng.randint(8, 22), "guests": guests}
    text = rng.choice(("{cap} is on {day} at {hour} o'clock. {who} will come.", "On {day} at {hour} o'clock there is the {event}. The guests: {who}."))
    return data, text.format(cap="The " + data["event"], who=listing(guests), day=day, hour=data["hour"], event=data["event"])


def weather(rng, side):
    kind = rng.choice(world.WEATHER)
    data = {"town": world.town(rng), "weather": kind, "temperature": world.temperature(rng, kind), "wind": rng.random() < 0.5}
    text = rng.choice(("In {town} it is {weather} and {temperature} degrees, {w}.", "Weather for {town}: {weather}, {temperature} degrees, {w}."))
    return data, text.format(w="with wind" if data["wind"] else "without wind", **data)


def thing(rng, side):
    who = world.name(rng, side, "she")
    noun = world.paired(rng, side, who, world.TREASURES)
    data = {"object": noun, "colour": rng.choice(world.COLOURS), "price": rng.randint(1, 99), "owner": who, "broken": rng.random() < 0.4}
    text = rng.choice(("{owner} paid {price} coins for {a}. {b}.", "The {colour} {object} of {owner} cost {price} coins. {b}."))
    return data, text.format(a=a(data["colour"] + " " + noun), b="It is broken" if data["broken"] else "It is not broken", **data)


KINDS = [person, person, pet, shopping, event, weather, thing]


def make(rng, side):
    data, text = rng.choice(KINDS)(rng, side)
    keys = list(data)
    if len(keys) > 2 and rng.random() < 0.4:
        keys = rng.sample(keys, rng.randint(2, len(keys)))
    data = {k: data[k] for k in keys}
    pretty = rng.random() < 0.3
    body = json.dumps(data, indent=2 if pretty else None, ensure_ascii=False)
    if rng.random() < 0.2 and "items" not in data:
        key = rng.choice(keys)
        answer = data[key]
        said = ("yes" if answer else "no") if isinstance(answer, bool) else listing(answer) if isinstance(answer, list) else str(answer)
        return ask("%s\n\nWhat is the value of \"%s\"?" % (body, key), said, said, "exact")
    question = rng.choice(("{t}\n\nWrite this as JSON with the keys {k}.", "Turn this into JSON ({k}): {t}", "Give me JSON with {k} for this text:\n{t}",
                           "Extract {k} as JSON.\n\n{t}"))
    if pretty:
        question += rng.choice((" Use indentation.", " Write it with one key per line.")) if question.endswith((".", "}")) else " Use indentation."
    return ask(question.format(t=text, k=listing(keys)), body, data, "json_equal")
