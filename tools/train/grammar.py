"""Turning templates into sentences of a chosen narrator and tense.

A template holds slots `{key}` and verbs `[walk]`.  A bare verb agrees with the hero (who may be "I"),
`[walk/w]` with any other single subject, `[walk/p]` with a plural one.  `{^key}` begins with a capital.
Words in dialogue are written out and stay as they are in every tense.
"""
import re

_PAST = dict(pair.split(":") for pair in """be:was have:had do:did go:went come:came see:saw take:took give:gave
find:found say:said tell:told think:thought know:knew get:got make:made run:ran sit:sat stand:stood hear:heard
feel:felt leave:left bring:brought buy:bought hold:held keep:kept lose:lost meet:met put:put read:read ride:rode
sing:sang sleep:slept speak:spoke steal:stole swim:swam throw:threw wake:woke win:won write:wrote begin:began
break:broke build:built catch:caught choose:chose climb:climbed cut:cut draw:drew drink:drank drive:drove eat:ate
fall:fell fight:fought fly:flew forget:forgot freeze:froze grow:grew hang:hung hide:hid hurt:hurt lead:led
lend:lent let:let lie:lay light:lit pay:paid ring:rang rise:rose sell:sold send:sent set:set shake:shook
shine:shone show:showed shut:shut sink:sank slide:slid spend:spent spread:spread stick:stuck tear:tore
understand:understood wear:wore weep:wept blow:blew bend:bent bite:bit creep:crept dig:dug swing:swung stop:stopped
drop:dropped slip:slipped hug:hugged nod:nodded hurry:hurried carry:carried try:tried cry:cried reply:replied
beg:begged grab:grabbed plan:planned trot:trotted hop:hopped step:stepped wrap:wrapped tie:tied clap:clapped
trip:tripped tap:tapped can:could will:would must:had_to rub:rubbed wag:wagged feed:fed cost:cost spin:spun worry:worried study:studied lay:laid sweep:swept
knit:knitted spot:spotted chat:chatted deal:dealt mean:meant teach:taught hop:hopped snap:snapped quarrel:quarrelled spring:sprang strike:struck become:became beat:beat""".split())
_THIRD = {"be": "is", "have": "has", "do": "does", "go": "goes", "can": "can", "will": "will", "must": "has to"}
_cache = {}


def conjugate(verb, subject, tense):
    """subject: 'i' (the narrator), 's' (third singular) or 'p' (plural); tense: 'past' or 'present'."""
    key = (verb, subject, tense)
    form = _cache.get(key)
    if form is None:
        form = _cache[key] = _conjugate(verb, subject, tense)
    return form


def _conjugate(verb, subject, tense):
    if tense == "past":
        if verb == "be":
            return "were" if subject == "p" else "was"
        if verb in _PAST:
            return _PAST[verb].replace("_", " ")
        return verb + "d" if verb.endswith("e") else verb + "ed"
    if verb == "be":
        return {"i": "am", "s": "is", "p": "are"}[subject]
    if subject != "s":
        return "have to" if verb == "must" else verb
    if verb in _THIRD:
        return _THIRD[verb]
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    if verb.endswith(("s", "sh", "ch", "x", "z")):
        return verb + "es"
    return verb + "s"


def a(noun):
    """The noun with its article."""
    return ("an " if noun[0] in "aeiou" and not noun.startswith("one") else "a ") + noun


def cap(text):
    return text[:1].upper() + text[1:]


def listing(items):
    """'a, b and c'"""
    items = list(items)
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


_COUNT = "no one two three four five six seven eight nine ten eleven twelve".split()


def count_word(n):
    return _COUNT[n] if n < len(_COUNT) else str(n)


_TOGETHER = {"they": "we", "them": "us", "their": "our"}  # the hero and someone else
PRONOUNS = {"she": ("she", "her", "her", "herself"), "he": ("he", "him", "his", "himself"),
            "i": ("I", "me", "my", "myself"), "it": ("it", "it", "its", "itself")}
_AFTER_STOP = re.compile(r"([.!?] )([a-z])")
_MARK = re.compile(r"\[([a-z]+)(?:/([wp]))?\]|\{(\^?)([A-Za-z0-9_]+)\}")


def realise(template, slots, person="third", tense="past"):
    """One sentence.  slots holds 'H' (the hero's mention) and 'gender'; the narrator replaces them."""
    first = person == "first"
    words = PRONOUNS["i" if first else slots["gender"]]
    lead = "i" if first else "s"

    def fill(match):
        verb, other, up, key = match.groups()
        if verb:
            return conjugate(verb, {"w": "s", "p": "p"}.get(other, lead), tense)
        if key == "H":
            value = "I" if first else slots["H"]
        elif key == "Hs":
            value = "my" if first else slots["H"] + "'s"
        elif key in _TOGETHER:
            value = _TOGETHER[key] if first else key
        elif key in ("h", "ho", "hp", "hr"):
            value = words[("h", "ho", "hp", "hr").index(key)]
        else:
            value = slots[key]
        return value[:1].upper() + value[1:] if up else value

    text = _MARK.sub(fill, template).replace(" can not ", " cannot ")
    text = _AFTER_STOP.sub(lambda m: m.group(1) + m.group(2).upper(), text)
    return text[:1].upper() + text[1:] if text[0] != '"' else text
