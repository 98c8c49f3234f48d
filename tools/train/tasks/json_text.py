"""JSON from a description, and a description from JSON."""
import json

import world
from example import ask
from grammar import a, cap, listing


def person(rng, side):
    who = world.name(rng, side, rng.choice(("she", "he")))
    data = {"name": who, "age": rng.randint(17, 90), "job": rng.choice(world.JOBS), "town": world.town(rng)}
    text = rng.choice((
        "{name} is {age} years old, works as {ajob} and lives in {town}.", "In {town} lives {name}, {ajob} of {age} years.",
        "Meet {name}, aged {age}. {name} comes from {town} and is {ajob}.", "{ajob} called {name}, {age} years old, lives in {town}."))
    return data, cap(text.format(ajob=a(data["job"]), **data))


def pet(rng, side):
    owner, kind = world.name(rng, side, "he"), world.animal(rng)
    data = {"pet": world.pet_name(rng, side), "kind": kind, "colour": rng.choice(world.COATS), "owner": owner, "friendly": rng.random() < 0.6}
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


def book(rng, side):
    who = world.name(rng, side, rng.choice(("she", "he")))
    noun = rng.choice(world.THING_LIST + world.ANIMALS)
    data = {"title": "The %s %s" % (rng.choice(("Golden", "Lost", "Little", "Old", "Red", "Silent")), cap(noun)), "author": who, "pages": rng.randint(20, 900),
            "read": rng.random() < 0.5}
    text = rng.choice(("\"{title}\" by {author} has {pages} pages. {b}", "{author} wrote \"{title}\", a book of {pages} pages. {b}"))
    return data, text.format(b="I have read it." if data["read"] else "I have not read it.", **data)


def trip(rng, side):
    one, two = world.towns(rng, 2)
    data = {"from": one, "to": two, "by": rng.choice(("train", "bus", "boat")), "hours": rng.randint(1, 12), "price": rng.randint(2, 99)}
    text = rng.choice(("The {by} from {f} to {to} takes {h} and costs {price} coins.", "From {f} to {to} by {by}: {h}, {price} coins.",
                       "You can go by {by} from {f} to {to} in {h} for {price} coins."))
    hours = "1 hour" if data["hours"] == 1 else "%d hours" % data["hours"]
    return data, text.format(f=one, to=two, by=data["by"], h=hours, price=data["price"])


def team(rng, side):
    members = [{"name": n, "age": rng.randint(5, 80)} for n in world.names(rng, side, rng.randint(2, 4))]
    rows = listing("%s (%d)" % (m["name"], m["age"]) for m in members)
    place = rng.choice(world.PLACE_LIST)
    return {"place": place, "members": members}, rng.choice(("At the {p} work {x}.", "The people of the {p} are {x}.")).format(p=place, x=rows)


KINDS = [person, person, pet, shopping, event, weather, thing, book, trip, team]
WITH_KEYS = ["{t}\n\nWrite this as JSON with the keys {k}.", "Turn this into JSON ({k}): {t}", "Give me JSON with {k} for this text:\n{t}", "Extract {k} as JSON.\n\n{t}",
             "Make JSON with {k}: {t}", "{t}\n\nGive me {k} as JSON.", "Write a JSON object with the keys {k} for this: {t}"]
BARE = ["Make JSON: {t}", "Turn this into JSON: {t}", "{t}\n\nWrite this as JSON.", "Write this as JSON:\n{t}", "JSON please: {t}", "Convert to JSON: {t}", "make json: {t}",
        "Give me this as JSON: {t}", "{t}\nPut this into JSON."]
PRETTY = ["Use indentation. ", "One key per line. ", "Pretty-print it. "]


def make(rng, side):
    data, text = rng.choice(KINDS)(rng, side)
    keys, bare = list(data), rng.random() < 0.35
    if not bare and len(keys) > 2 and rng.random() < 0.4:
        keys = rng.sample(keys, rng.randint(2, len(keys)))
    data = {k: data[k] for k in keys}
    pretty = rng.random() < 0.25
    body = json.dumps(data, indent=2 if pretty else None, ensure_ascii=False)
    if rng.random() < 0.15:
        plain = [k for k in keys if not isinstance(data[k], list)] or keys
        key = rng.choice(plain)
        if not isinstance(data[key], list):
            said = data[key] if isinstance(data[key], str) else json.dumps(data[key])
            question = rng.choice(("{b}\n\nWhat is the value of \"{k}\"?", "What is \"{k}\" in this JSON?\n\n{b}", "{b}\n\nGive me the value of {k}."))
            return ask(question.format(b=body, k=key), said, said, "exact")
    question = rng.choice(BARE if bare else WITH_KEYS).format(t=text, k=listing(keys))
    if pretty:
        question = rng.choice(PRETTY) + question if rng.random() < 0.5 else question + "\n" + rng.choice(PRETTY).strip()
    return ask(question, body, data, "json_equal", group="json")
