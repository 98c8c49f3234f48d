"""Conversations as Gemma 4's prompt text (the kind of the larger sizes), and which characters are the model's own.

`render` gives what the published template gives; `render_sample` adds the answer that is to be learned.
Spans are [start, end) in characters: the model's words with the control tokens it must write itself
(`<turn|>`, `<channel|>`, the `<|tool_response>` that ends a call).  With thinking off the empty thought block is
part of the prompt and the model's earlier turns are learned too; with thinking on only what follows the last
user turn is, because the template has stripped the earlier thoughts.
"""
QUOTE = '<|"|>'
EMPTY_THOUGHT = "<|channel>thought\n<channel|>"
MARKERS = {"image": "<|image|>", "audio": "<|audio|>", "video": "<|video|>"}


def value(v, quote_keys=False):
    """Gemma 4's own value syntax: strings between <|"|>, bare and sorted keys."""
    if isinstance(v, str):
        return QUOTE + v + QUOTE
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, dict):
        key = (lambda k: QUOTE + k + QUOTE) if quote_keys else str
        return "{" + ",".join(key(k) + ":" + value(v[k], quote_keys) for k in sorted(v, key=str.lower)) + "}"
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(value(x, quote_keys) for x in v) + "]"
    return str(v)


def _schema(p):
    """The fields of one property in the template's order; the type comes last."""
    out = []
    if p.get("description"):
        out.append("description:" + value(p["description"]))
    if p.get("enum"):
        out.append("enum:" + value(p["enum"]))
    if p.get("items"):
        out.append("items:{" + _schema(p["items"]) + "}")
    if p.get("nullable"):
        out.append("nullable:true")
    if p.get("properties"):
        out.append("properties:{" + _properties(p["properties"]) + "}")
    if p.get("required"):
        out.append("required:" + value(p["required"]))
    if p.get("type"):
        out.append("type:" + value(p["type"].upper()))
    return ",".join(out)


def _properties(properties):
    return ",".join(k + ":{" + _schema(properties[k]) + "}" for k in sorted(properties, key=str.lower))


def declaration(tool):
    f = tool.get("function", tool)
    return "<|tool>declaration:%s{description:%s,parameters:{%s}}<tool|>" % (
        f["name"], value(f["description"]), _schema(f["parameters"]))


def call(c):
    f = c.get("function", c)
    arguments = f["arguments"]
    body = "{" + arguments + "}" if isinstance(arguments, str) else value(arguments)
    return "<|tool_call>call:" + f["name"] + body + "<tool_call|>"


def response(name, content):
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return "<|tool_response>response:" + name + (value(content) if isinstance(content, dict) else
                                                 "{value:" + value(content) + "}") + "<tool_response|>"


def text_of(content):
    if isinstance(content, list):
        return "".join(MARKERS.get(p["type"]) or p["text"].strip() for p in content)
    return (content or "").strip()


def without_thoughts(text):
    return "".join(piece.split("<|channel>")[0] for piece in text.split("<channel|>")).strip()


def _call_names(turn):
    return {c.get("id"): c.get("function", c)["name"] for c in turn["tool_calls"]}


def _is_model(turn):
    return turn["role"] in ("model", "assistant")


def _thought(turn):
    return turn.get("thinking") or turn.get("reasoning_content")


class _Out:
    def __init__(self):
        self.parts, self.length, self.spans = [], 0, []

    def add(self, text, own=False):
        if own and text:
            if self.spans and self.spans[-1][1] == self.length:
                self.spans[-1][1] += len(text)
            else:
                self.spans.append([self.length, self.length + len(text)])
        self.parts.append(text)
        self.length += len(text)


def render(turns, tools=None, generation_prompt=True, think=False, _out=None):
    """The prompt text and the spans of the model's words in it."""
    out = _out or _Out()
    out.add("<bos>")
    turns = list(turns)
    head = turns.pop(0) if turns and turns[0]["role"] in ("system", "developer") else None
    if head or tools or think:
        out.add("<|turn>system\n" + ("<|think|>\n" if think else "") + (text_of(head["content"]) if head else "")
                + "".join(map(declaration, tools or ())) + "<turn|>\n")
    last_user = max((i for i, t in enumerate(turns) if t["role"] == "user"), default=-1)
    was_model = turn_open = False
    for i, turn in enumerate(turns):
        if turn["role"] == "tool":
            continue
        is_model = _is_model(turn)
        if not (is_model and was_model):
            out.add("<|turn>" + ("model" if is_model else turn["role"]) + "\n")
        own = is_model and (not think or i > last_user)
        turn_open = False
        if turn.get("tool_calls"):
            turn_open = _calls(out, turns, i, own, i > last_user)
        text = text_of(turn["content"])
        text = without_thoughts(text) if is_model else text
        if text or not turn.get("tool_calls"):
            out.add(text + "<turn|>", own)
            out.add("\n")
            turn_open = False
        was_model = is_model
    if generation_prompt and not turn_open:
        out.add("<|turn>model\n" + ("" if think else EMPTY_THOUGHT))
    return "".join(out.parts), out.spans


def _calls(out, turns, i, own, keep_thought):
    """The calls of turn i and the responses that follow it; says that the model's turn is still open."""
    turn = turns[i]
    if keep_thought and _thought(turn):
        out.add("<|channel>thought\n" + _thought(turn) + "\n<channel|>", own)
    for c in turn["tool_calls"]:
        out.add(call(c), own)
    names, answered, j = _call_names(turn), False, i + 1
    while j < len(turns) and turns[j]["role"] == "tool":
        name = turns[j].get("name") or names.get(turns[j].get("tool_call_id")) or next(iter(names.values()))
        rendered = response(name, turns[j]["content"])
        mark = len("<|tool_response>") if not answered else 0
        out.add(rendered[:mark], own)
        out.add(rendered[mark:])
        answered, j = True, j + 1
    if not answered:
        out.add("<|tool_response>", own)
    return True


def answer_text(turn):
    """What the model itself writes for a final turn."""
    thought = "<|channel>thought\n" + _thought(turn) + "\n<channel|>" if _thought(turn) else ""
    calls = "".join(map(call, turn.get("tool_calls") or ()))
    return thought + text_of(turn["content"]) + (calls + "<|tool_response>" if calls else "<turn|>")


def render_sample(example):
    """Text, spans to learn, and the length of the prompt, of one Example."""
    if example.turns[0]["role"] == "text":
        text = "<bos>" + example.turns[0]["content"] + "<eos>"
        return text, [[5, len(text)]], 5
    out = _Out()
    render(example.turns[:-1], example.tools, True, example.think, out)
    prompt = out.length
    out.add(answer_text(example.turns[-1]), True)
    if not example.turns[-1].get("tool_calls"):
        out.add("\n")
    return "".join(out.parts), out.spans, prompt
