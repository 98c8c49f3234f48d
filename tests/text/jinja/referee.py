#!/usr/bin/env python3
"""jinja2 as the referee: reads JSON lines {"template", "context"}, answers each with {"output"} or {"error": class}.

    referee.py < lines             answers, in the order of the lines
    referee.py --fill FILE.json    writes what jinja2 makes of each program into the file of programs

The environment is the one that Hugging Face transformers uses for chat templates.
"""
import datetime
import json
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    sys.exit(77)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = tojson
ENVIRONMENT.globals["raise_exception"] = raise_exception
ENVIRONMENT.globals["strftime_now"] = datetime.datetime(2026, 11, 19, 12, 34, 56).strftime


def answer(program):
    try:
        return {"output": ENVIRONMENT.from_string(program["template"]).render(**program.get("context", {}))}
    except Exception as error:
        return {"error": type(error).__name__}


def main():
    if sys.argv[1:2] == ["--fill"]:
        with open(sys.argv[2], encoding="utf-8") as f:
            programs = json.load(f)
        for program in programs:
            program.pop("output", None)
            program.pop("error", None)
            program.update(answer(program))
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(json.dumps(p, ensure_ascii=False) for p in programs) + "\n]\n")
        return
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


main()
