"""The chat template that is shipped with the model, rendered as transformers renders it.

    /usr/bin/python3 tools/train/tests/test_template.py        (needs jinja2: apt-get install python3-jinja2)
"""
import functools
import json
import os
import sys
import unittest

try:
    import jinja2
    import jinja2.sandbox
except ImportError:
    jinja2 = None

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TEMPLATE = os.path.join(ROOT, "models", "tiny", "chat_template.jinja")
CASES = os.path.join(ROOT, "tests", "golden", "chat", "cases.json")
sys.path.insert(0, os.path.dirname(HERE))


@functools.lru_cache(None)
def load():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    with open(TEMPLATE, encoding="utf-8") as file:
        return environment.from_string(file.read())


@unittest.skipIf(jinja2 is None, "jinja2 is not installed: apt-get install python3-jinja2, and run with /usr/bin/python3")
class Template(unittest.TestCase):
    def render(self, messages, tools=None, add_generation_prompt=True, **more):
        return load().render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, bos_token="<bos>", **more)

    def test_the_golden_prompts_come_out_byte_for_byte(self):
        with open(CASES, encoding="utf-8") as file:
            cases = json.load(file)
        self.assertEqual(len(cases), 26)
        for i, case in enumerate(cases):
            more = {} if case["enable_thinking"] is None else {"enable_thinking": case["enable_thinking"]}
            with self.subTest(case=i):
                self.assertEqual(self.render(case["messages"], case["tools"], case["add_generation_prompt"], **more), case["rendered"])

    def test_the_training_prompts_are_what_the_template_renders(self):
        import itertools
        import make_data
        import render_chat
        seen = 0
        for _, example in itertools.islice(make_data.examples(5, "train", 0), 1500):
            if example.turns[0]["role"] == "text":
                continue
            turns = [dict(t, role="assistant", reasoning_content=t.get("thinking")) if t["role"] == "model" else t for t in example.turns[:-1]]
            text, _, prompt = render_chat.render_sample(example)
            self.assertEqual(self.render(turns, example.tools, enable_thinking=example.think), text[:prompt])
            seen += 1
        self.assertGreater(seen, 1000)

    def test_type_lists_and_unknown_fields_of_items(self):
        tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {
            "x": {"type": ["string", "null"], "description": "e"},
            "y": {"type": "array", "items": {"type": "string", "enum": ["b", "a"], "extra": {"k": 1}}}}}}}
        text = self.render([{"role": "user", "content": "q"}], [tool])
        self.assertIn('x:{description:<|"|>e<|"|>,type:[<|"|>STRING<|"|>,<|"|>NULL<|"|>]}', text)
        self.assertIn('items:{enum:[<|"|>b<|"|>,<|"|>a<|"|>],extra:{<|"|>k<|"|>:1},type:<|"|>STRING<|"|>}', text)


if __name__ == "__main__":
    unittest.main()
