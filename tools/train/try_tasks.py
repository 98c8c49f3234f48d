"""Prints samples of tasks to read: python3 try_tasks.py [TASK...] [-n COUNT] [--eval]"""
import argparse
import random

import render_chat
import tasks


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="*", default=sorted(tasks.WEIGHTS))
    parser.add_argument("-n", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eval", action="store_true")
    options = parser.parse_args()
    for name in options.task:
        for i in range(options.n):
            rng = random.Random("%s/%d/%d" % (name, options.seed, i))
            example = tasks.example(name, rng, "eval" if options.eval else "train")
            print("=== %s %d  expect %r (%s)" % (name, i, example.expect, example.check))
            print(render_chat.render_sample(example)[0])


if __name__ == "__main__":
    main()
