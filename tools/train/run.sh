#!/usr/bin/env bash
# Makes everything from nothing on one GPU: tools/train/run.sh OUT [step ...]
# Steps: tokenizer target own assistant dflash evaluate export.  A step whose result is there is skipped; delete it to do it again.
# SPEED=0.1 makes a quick trial of the timed steps.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: run.sh OUT [step ...]}
shift
steps=${*:-tokenizer target own assistant dflash evaluate export}
speed=${SPEED:-1}
minutes() { python3 -c "print(max(0.25, $1 * $speed))"; }
export PYTHONUNBUFFERED=1
mkdir -p "$out"
cd "$here"
tokenizer=$out/tokenizer/tokenizer.json

for step in $steps; do
  echo "== $step"
  case $step in
    tokenizer)
      [ -e "$tokenizer" ] || { python3 make_data.py "$out/data" --tokens 6e6 --seed 1 && python3 train_tokenizer.py "$out/tokenizer" "$out"/data/train-*.jsonl --check; } ;;
    target)
      [ -e "$out/target/config.json" ] || python3 train_target.py "$out" --tokenizer "$tokenizer" --minutes "$(minutes 7.5)" ;;
    own)
      [ -e "$out/own.npz" ] || python3 self_text.py "$out/target" "$out/own.npz" --tokenizer "$tokenizer" --prompts "$(python3 -c "print(int(16384 * $speed))")" ;;
    assistant)
      [ -e "$out/assistant/config.json" ] || python3 train_assistant.py "$out/target" "$out" --tokenizer "$tokenizer" --own "$out/own.npz" --minutes "$(minutes 3)" ;;
    dflash)
      [ -e "$out/dflash/config.json" ] || python3 train_dflash.py "$out/target" "$out" --tokenizer "$tokenizer" --own "$out/own.npz" --minutes "$(minutes 3)" ;;
    evaluate)
      [ -e "$out/answers.jsonl" ] || python3 evaluate.py "$out/target" eval.jsonl --tokenizer "$tokenizer" --answers "$out/answers.jsonl" ;;
    export)
      python3 export.py "$out/target" "$out/models" --tokenizer "$tokenizer" --template ../../models/tiny/chat_template.jinja \
        --assistant "$out/assistant" --dflash "$out/dflash" ;;
    *) echo "run.sh: no step is called $step" >&2; exit 2 ;;
  esac
done
