"""Tests of the training data: python3 tools/train/tests/test_data.py (a few seconds, standard library only)."""
import collections
import itertools
import json
import os
import random
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import checks
import make_data
import render_chat
import scenes
import tasks
import train_tokenizer
import world
from example import Example, model, user


def rows(side, n, seed=3):
    return [make_data.record(name, e, side) for name, e in itertools.islice(make_data.examples(seed, side, 0), n)]


TRAIN, EVAL = rows("train", 6000), rows("eval", 3000)


def answer_of(row):
    """What the model is expected to write, as the engine's parser would hand it over."""
    text = row["text"][row["prompt"]:].rstrip("\n")
    text = text.split("<channel|>")[-1]
    return text.removesuffix("<turn|>").removesuffix("<|tool_response>")


class Data(unittest.TestCase):
    def test_the_same_seed_gives_the_same_text(self):
        self.assertEqual(rows("train", 300), TRAIN[:300])
        self.assertNotEqual(rows("train", 300, seed=4), TRAIN[:300])

    def test_every_task_occurs(self):
        self.assertEqual({r["task"] for r in TRAIN}, set(tasks.WEIGHTS))

    def test_no_held_out_name_occurs_in_training(self):
        held_out = set(world.eval_names())
        self.assertGreater(len(held_out), 10)
        words = set(re.findall(r"\w+", " ".join(r["text"] for r in TRAIN)))
        self.assertEqual(words & held_out, set())
        seen = set(re.findall(r"\w+", " ".join(r["text"] for r in EVAL)))
        self.assertGreater(len(seen & held_out), 10)

    def test_no_held_out_story_pair_is_asked_for_in_training(self):
        asked = re.compile(r"<\|turn>user\n[^\n]*\bstory about (?:an? )?(\w+) and an? (\w+)[.?,]")
        pairs = [m.groups() for r in TRAIN if (m := asked.search(r["text"]))]
        self.assertGreater(len(pairs), 50)
        self.assertEqual([p for p in pairs if world.split("/".join(p)) == "eval"], [])
        pairs = [m.groups() for r in EVAL if (m := asked.search(r["text"]))]
        self.assertEqual([p for p in pairs if world.split("/".join(p)) == "train"], [])

    def test_no_held_out_sum_occurs_in_training(self):
        sums = [m for r in TRAIN if r["task"] == "arithmetic" for m in re.findall(r"(\d{2,}) \+ (\d{2,}) = \d+(?:\n|<)", r["text"])]
        self.assertGreater(len(sums), 100)
        self.assertEqual([s for s in sums if world.split("%s+%s" % s) == "eval"], [])

    def test_templates_are_filled(self):
        for row in TRAIN + EVAL:
            if row["task"] in ("stories", "story_questions", "chat"):
                self.assertIsNone(re.search(r"[{}\[\]]", row["text"]), row["text"])
            self.assertNotIn("  ", row["text"].replace("    ", "").replace("\n  ", "\n"))


class Evaluation(unittest.TestCase):
    def test_the_evaluation_set_is_what_its_command_writes(self):
        with open(os.path.join(os.path.dirname(HERE), "eval.jsonl"), encoding="utf-8") as file:
            stored = [json.loads(line) for line in file]
        self.assertEqual(stored, json.loads(json.dumps(make_data.fixed_set(1, 40))))
        self.assertEqual({g: 40 for g in make_data.GROUPS}, dict(collections.Counter(r["group"] for r in stored)))

    def test_every_group_but_prose_is_judged(self):
        for row in EVAL:
            self.assertEqual(row["check"] is None, row["group"] == "prose", row)

    def test_a_group_holds_what_its_name_says(self):
        for row in EVAL:
            if row["group"] == "addition":
                self.assertEqual((row["check"], row["task"]), ("number", "arithmetic"))
            if row["group"] in ("json", "tool_call"):
                self.assertEqual(row["check"], {"json": "json_equal", "tool_call": "tool_call"}[row["group"]])
            if row["group"] in ("pictures", "clips"):
                self.assertIn("<|image|>" if row["group"] == "pictures" else "<|video|>", row["text"][:row["prompt"]])

    def test_mixed_conversations_are_long_and_fit_the_context(self):
        talks = [r["text"] for r in TRAIN if r["task"] == "mixed"]
        self.assertLess(max(map(len, talks)), 14500)
        self.assertGreater(max(map(len, talks)), 9000)
        self.assertGreater(sum(t.count("<|turn>user") > 3 for t in talks), len(talks) // 3)

    def test_a_name_told_is_the_name_recalled(self):
        for row in TRAIN:
            for name in re.findall(r"<\|turn>model\n(?:<\|channel>thought\n<channel\|>)?[^<]*?[Yy]our name is (\w+)", row["text"]):
                self.assertRegex(row["text"], r"(?i)(?:my name is|i am|call me) " + name)


class Checks(unittest.TestCase):
    def test_the_expected_answer_passes(self):
        judged = [r for r in EVAL if r["check"]]
        self.assertGreater(len(judged), 2000)
        for row in judged:
            self.assertTrue(checks.check(row["check"], answer_of(row), row["expect"]), row)

    def test_wrong_answers_fail(self):
        for row in EVAL:
            if row["check"] and row["expect"] != {"all": []} and row["expect"] != {"all": [], "least": 2}:
                self.assertFalse(checks.check(row["check"], "I do not like turnips 123456789.", row["expect"]), row)
        self.assertFalse(checks.number("The answer is 12.", 13))
        self.assertFalse(checks.json_equal('{"age": 4', {"age": 4}))
        self.assertFalse(checks.json_equal('{"age": 5}', {"age": 4}))
        self.assertFalse(checks.words("Mara and Tom did.", {"all": ["mara"], "none": ["tom"]}))
        self.assertFalse(checks.tool_call("<|tool_call>call:f{a:2}<tool_call|>", ["call:f{a:1}"]))
        self.assertFalse(checks.words("AHOY", {"all": [], "begin": "Ahoy!"}))
        self.assertFalse(checks.words("Hello there", {"all": [], "case": "upper"}))
        self.assertFalse(checks.words("A red circle and a blue star.", {"all": ["red circle"], "shapes": 1}))
        self.assertFalse(checks.members("Fox and table.", {"count": 2, "of": ["fox", "owl"]}))
        self.assertTrue(checks.members("- fox\n- owl", {"count": 2, "of": ["fox", "owl"]}))
        self.assertFalse(checks.overlap("The fox slept all day in the sun.", "Mara found a key and opened the door."))
        self.assertFalse(checks.story("A fox ran. A fox ran. A fox ran. A fox ran. A fox ran.", {"all": ["fox"]}))

    def test_sums_are_right(self):
        for row in TRAIN:
            if row["task"] == "arithmetic":
                for x, op, y, z in re.findall(r"(?<![\d+*] )(?<!\d)(\d+) ([-+*]) (\d+) = (\d+)(?=\n|<|$)", row["text"]):
                    self.assertEqual(eval(x + op + y), int(z), row["text"])


class Rendering(unittest.TestCase):
    def test_prompts_are_those_of_the_published_template(self):
        with open(os.path.join(HERE, "chat_cases.json"), encoding="utf-8") as file:
            for case in json.load(file):
                text, _ = render_chat.render(case["messages"], case["tools"], case["add_generation_prompt"], bool(case["enable_thinking"]))
                self.assertEqual(text, case["rendered"])

    def own(self, example):
        text, spans, prompt = render_chat.render_sample(example)
        return [text[a:b] for a, b in spans]

    def test_without_thinking_every_model_turn_is_learned(self):
        talk = [user("1"), model("one"), user("2"), model("two")]
        self.assertEqual(self.own(Example(talk)), ["one<turn|>", "two<turn|>"])

    def test_with_thinking_only_the_last_answer_is_learned(self):
        talk = [user("1"), model("one", "hm"), user("2"), model("two", "so")]
        self.assertEqual(self.own(Example(talk, think=True)), ["<|channel>thought\nso\n<channel|>two<turn|>"])

    def test_a_call_is_learned_up_to_the_response_marker(self):
        asked = {"role": "model", "content": "", "tool_calls": [{"name": "f", "arguments": {"b": 1, "a": "x"}}]}
        written = '<|tool_call>call:f{a:<|"|>x<|"|>,b:1}<tool_call|><|tool_response>'
        self.assertEqual(self.own(Example([user("q"), asked])), [written])
        full = [user("q"), asked, {"role": "tool", "name": "f", "content": {"r": 2}}, model("Two.")]
        self.assertEqual(self.own(Example(full)), [written, "Two.<turn|>"])

    def test_spans_lie_in_the_text_and_end_a_turn(self):
        for row in TRAIN:
            for begin, end in row["spans"]:
                self.assertLess(begin, end)
                self.assertTrue(row["text"][begin:end].endswith(("<turn|>", "<|tool_response>", "<eos>")), row)

    def test_every_picture_has_its_marker(self):
        for row in TRAIN:
            self.assertEqual(len(re.findall(r"<\|(?:image|video)\|>", row["text"])), len(row.get("images", ())))


class Scenes(unittest.TestCase):
    def test_a_shape_covers_its_centre_and_moves(self):
        shape = {"shape": "square", "colour": "red", "size": "small", "x": 0.25, "y": 0.5, "dx": 0.5, "dy": 0.0}
        scene = {"background": "white", "shapes": [shape], "frames": 3}
        red = bytes(scenes.RGB["red"])
        for frame, x in ((0, 24), (1, 48), (2, 72)):
            row = scenes.render(scene, frame, 96)[48]
            self.assertEqual([i for i in (24, 48, 72) if row[3 * i:3 * i + 3] == red], [x])

    def test_shapes_stay_inside_and_apart(self):
        rng = random.Random(1)
        for _ in range(50):
            scene = scenes.still(rng, "train")
            pixels = b"".join(scenes.render(scene, 0, 48))
            colours = {pixels[i:i + 3] for i in range(0, len(pixels), 3)} - {bytes(scenes.BACKGROUNDS[scene["background"]])}
            self.assertEqual(colours, {bytes(scenes.RGB[s["colour"]]) for s in scene["shapes"]})


class Tokens(unittest.TestCase):
    def test_a_tokenizer_gives_text_back_and_splits_numbers(self):
        counts = train_tokenizer.collections.Counter("▁fox ▁fox ▁box the the".split())
        plain = train_tokenizer.Tokenizer(train_tokenizer.tokenizer_json(*train_tokenizer.train(counts, 420)))
        text = "<bos><|turn>user\nthe fox é 日 127<turn|>\n\n    x"
        self.assertEqual(plain.decode(plain.encode(text)), text)
        self.assertEqual(len(plain.encode("127")), 3)
        self.assertEqual(len(plain.encode(" fox")), 1)


if __name__ == "__main__":
    unittest.main()
