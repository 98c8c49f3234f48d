#!/usr/bin/env bash
# run.sh BUILD SOURCE: installs the build into a temporary prefix, builds the examples against what is installed, and
# runs them on the model in the box.
set -eu
build=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/prefix" >"$folder/log"
cmake -S "$source/examples" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_BUILD_TYPE=Release >>"$folder/log"
cmake --build "$folder/build" >>"$folder/log" || { cat "$folder/log"; exit 1; }
model=$folder/prefix/share/slipstream/models/tiny

expect() {  # expect WORDS TEXT
  case "$2" in *"$1"*) ;; *) echo "expected '$1' in: $2"; exit 1 ;; esac
}
story=$("$folder/build/hello" "$model")
expect 'fox' "$story"
answers=$(printf 'What is 2 plus 3?\nAnd what is a fox?\n' | "$folder/build/chat" "$model" 2>&1)
expect 'tokens in' "$answers"
both=$("$folder/build/batch" "$model" 'Tell me a story about a fox.' 'Tell me a story about a hen.')
expect 'a fox.' "$both"
expect 'a hen.' "$both"
# A picture is decoded by the installed worker, and what is none is refused by name.
seen=$("$folder/build/look" "$model" "$source/examples/shapes.png")
expect 'red circle' "$seen"
if wrong=$("$folder/build/look" "$model" "$source/examples/look.cpp" 2>&1); then echo "a program was seen as a picture"; exit 1; fi
expect 'look.cpp: is no picture' "$wrong"
# A wrong model is a sentence and an exit code.
if wrong=$("$folder/build/hello" "$folder/nowhere" 2>&1); then echo "a missing model was accepted"; exit 1; fi
expect 'nowhere' "$wrong"
echo "the examples run on the installed library"
