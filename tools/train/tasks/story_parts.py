"""What plots share: the opening, how the hero comes by a thing, goals, troubles, endings."""
import world
from grammar import a, count_word
from tasks.troubles import TROUBLES

DAYPARTS = ["morning", "afternoon", "evening", "day"]


class FirstLine(str):
    """A template that has another wording when the hero tells the story."""

    def __new__(cls, third, first):
        self = super().__new__(cls, third)
        self.first = first
        return self


def opening(s, place):
    rng = s.rng
    s.slots.update(P=place, inP=world.PLACES[place] + " the " + place, day=rng.choice(DAYPARTS), aw="",
                   weather=rng.choice(world.WEATHER), town=world.town(rng))
    s.slots["aw"] = a(s.slots["weather"])
    s.say("There [be/w] once {Ha} who [live/w] near the {P}.",
          "Once upon a time {Ha} [live/w] near the {P}.",
          "It [be/w] {aw} {day} in {town}, and {Hi} [be/w] {inP}.",
          "One {weather} {day} {Hi} [go/w] to the {P}.",
          "Near {town}, not far from the {P}, [live/w] {Ha}.",
          "Everybody in {town} [know/w] {Hi}, who [spend/w] every {day} {inP}.",
          "In the village of {town} there [be/w] {Ha}.",
          "In a small house near the {P} [live/w] {Ha}.",
          "This is the story of {Hi}, who [live/w] near {town}.",
          "The {day} [be/w] {weather}, and {Hi} [be/w] alone {inP}.",
          "On {aw} {day} {Hi} [come/w] to the {P}.")
    first = s.paras[-1]
    # In the first person the narrator introduces himself instead.
    first[-1] = FirstLine(first[-1], s.rng.choice((
        "{Hi2}. It [be/w] {aw} {day}, and I [be] {inP}.", "It [be/w] {aw} {day}, and I [be] {inP}.",
        "{Hi2}. My home [be/w] near the {P}.", "{Hi2}. Let me tell you what [happen/w] on {aw} {day} {inP}.")))
    s.slots["Hi2"] = "I am " + s.hero.intro if not s.hero.name else "My name is " + s.hero.name


def give_thing(s, who=None, items=None, slot="X"):
    """A thing for the hero, with looks; sets X, aX ('a rusty key') and returns the bare noun."""
    noun = world.paired(s.rng, s.side, (who or s.hero).key, items or world.THING_LIST)
    looks = world.THINGS[noun][1].split() if noun in world.THINGS else world.COLOURS + ["small", "old"]
    look = s.rng.choice(looks)
    s.slots.update({slot: noun, "a" + slot: a(look + " " + noun), "look" + slot: look})
    return noun


def getting(s):
    """How the hero comes to have X."""
    how = s.rng.choice(("found", "bought", "was given", "made"))
    if how == "found":
        s.say("Under a bush {h} [find] {aX}.", "On the way {h} [find] {aX} in the grass.", "There, half under the leaves, [lie/w] {aX}.",
              "Behind an old wall something [catch/w] {hp} eye. It [be/w] {aX}.", "One day {h} [find] {aX} by the road, and nobody [know/w] whose it [be/w].")
    elif how == "bought":
        n = s.rng.randint(2, 9)
        s.slots["coins"] = count_word(n)
        s.say("At the market {h} [buy] {aX} for {coins} coins.",
              "{H} [pay] {coins} coins for {aX}, which [be/w] all the money {h} [have].",
              "An old man [sell/w] {ho} {aX} for {coins} coins.", "For {coins} coins {h} [get] {aX} from a trader.")
        s.ask("how many", "How many coins did {H} pay for the {X}?", "{^H} paid {coins} coins.", "{coins}")
    elif how == "was given":
        s.slots["giver"] = s.rng.choice(("grandmother", "uncle", "aunt", "neighbour", "teacher", "brother", "sister", "grandfather"))
        s.say("That {day} {hp} {giver} [give/w] {ho} {aX}. \"You will need it one day,\" the {giver} [say/w].",
              "\"Take this,\" {hp} {giver} [say/w], and [put/w] {aX} into {hp} hands.",
              "For {hp} birthday {h} [get] {aX} from {hp} {giver}.")
        s.ask("who", "Who gave {H} the {X}?", "The {giver} gave it to {H}.", "{giver}")
    else:
        s.say("All week {h} [have] worked on {aX}, and now it [be/w] ready.",
              "{H} [be] good at making things. This time {h} [have] made {aX}.", "With {hp} own hands {h} [have] made {aX}.")
    s.event({"found": "{H} [find] {aX}.", "bought": "{H} [buy] {aX}.", "was given": "{H} [get] {aX} from {hp} {giver}.",
             "made": "{H} [make] {aX}."}[how])


GOALS = [("{H} [want] to get to {far} in time for {feast}.", "get to {feast}", "At {feast} everyone [cheer/w] when {h} [arrive]."),
         ("{Hs} friend [be/w] ill in {far}, and {H} [want] to bring {fp} some {food}.", "bring {food} to a sick friend",
          "The friend [eat/w] the {food} and [smile/w] for the first time in days."),
         ("{H} [have] to carry a letter to {far} before sunset.", "carry a letter to {far}",
          "The letter [arrive/w] just as the sun [touch/w] the roofs."),
         ("{H} [long] to see the sea, which [lie/w] behind {far}.", "see the sea",
          "And there [be/w] the sea at last, blue and endless."),
         ("{H} [hope] to sell {hp} {food} in {far}.", "sell {food} in {far}", "By noon everything [be/w] sold."),
         ("Far away in {far} {hp} sister [be/w] waiting, and {H} [have] promised to visit her.", "visit a sister in {far}",
          "{Hs} sister [run/w] out of the house and [hug/w] {ho}."),
         ("A strange light [shine/w] every night above {far}, and {H} [want] to know why.", "find out about the light above {far}",
          "The light, it [turn/w] out, [be/w] only a mirror on the church tower. {H} [laugh] out loud.")]


def goal(s):
    rng = s.rng
    want, goal, reached = rng.choice(GOALS)
    food = rng.choice(world.FOODS)
    s.slots.update(feast=rng.choice(world.EVENTS), food=food, fp=rng.choice(("him", "her")),
                   far=next(t for t in world.towns(rng, 2) if t != s.slots["town"]))
    s.say(want)
    s.event(want)
    s.ask("why", "Why did {H} set out?", "{^H} wanted to " + goal + ".", goal.split(" to {far}")[0].split(" in {far}")[0].split(" above")[0])
    return reached


def trouble(s, thing, slot="T"):
    danger = TROUBLES[world.THINGS[thing][0]]
    s.slots[slot] = s.rng.choice(danger["at"])
    return danger


MORALS = ["kindness comes back", "a small thing can be a great help", "one should think before acting",
          "sharing makes things better", "it is never too late to say sorry", "patience pays",
          "a promise is a promise", "asking for help is no shame"]


def ending(s, moral=None):
    s.slots["moral"] = moral or s.rng.choice(MORALS)
    s.slots["feel2"] = s.rng.choice(("careful", "patient", "cheerful"))
    s.slots["feel"] = s.rng.choice(("happy", "proud", "tired but happy", "grateful", "calm"))
    s.say("From that day on {H} [know] that {moral}.", "And so everything [end/w] well.",
          "\"What a day!\" {H} [say], and [fall] asleep at once.", "And {H} never [forget] that {moral}.",
          "For weeks {H} [talk] of nothing else.", "That evening the stars [shine/p] brighter than ever.",
          "\"You see,\" {H} [say] later, \"{moral}.\"",
          "{H} [smile], for {h} [know] now that {moral}.", "Years later {H} still [like] to talk about it.",
          "Now {H} [be] a little wiser and much more {feel2}.", "{H} [be] {feel} and [sleep] well that night.",
          "And whenever it [be/w] {weather}, {H} [think] of that day.", "{^H} [go] home {feel}.",
          "\"Well,\" {H} [say], \"I will not forget this.\"", "That night {H} [tell] the whole story at home, twice.",
          "{^H} [learn] something that {day}: {moral}.")
