#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo model from nothing:  ./make.sh [STEPS] [MINUTES]     (torch from PyPI; about an hour on 2 cores)
set -e
cd "$(dirname "$0")"
PY=${PY:-.venv/bin/python}
if [ ! -x "$PY" ]; then python3 -m venv .venv; .venv/bin/pip install -q torch numpy safetensors tokenizers transformers gguf; fi
[ -f corpus.txt ] || $PY generate_corpus.py --mb 34 --seed 1
[ -f tokenizer.json ] || $PY train_tokenizer.py
[ -f train.npz ] || $PY encode.py
$PY train.py --steps "${1:-5000}" --minutes "${2:-60}"
$PY export.py      # hf/, tinyworld-f16.gguf, tinyworld-q8_0.gguf
$PY golden.py      # golden.json
$PY evaluate.py    # eval.json, samples.md
