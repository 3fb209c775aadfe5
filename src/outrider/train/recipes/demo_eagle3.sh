#!/usr/bin/env bash
# How the EAGLE-3 head of the demo model was made: about 90 minutes on 2 cores, texts included.
# Usage: demo_eagle3.sh DIRECTORY
set -euo pipefail
out=${1:?name a directory for texts and runs}

# The target writes prompts and answers: 1400 texts. The first 744 lend their paragraphs to prompts of other kinds.
outrider train data demo --out "$out/own" --count 1400 --temperature 0,0,0.7,1 --running 32
python -m outrider.train.recipes.demo_prompts "$out/own" "$out/tasks.jsonl" --count 4000 --seed 1 --first 744
outrider train data demo --prompts "$out/tasks.jsonl" --out "$out/tasks" --count 1443 --temperature 0,0,0.7,1 --running 32

outrider train eagle3 demo --data "$out/own" --data "$out/tasks" --out "$out/eagle3" \
    --preset tiny --draft-vocab 6144 --depth 4 --length 512 --batch 4 --lr 1e-3 --minutes 40 --precision bf16 --buffer 6
