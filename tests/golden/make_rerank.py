#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small random rerankers, and how relevant llama-server finds documents.

    make_rerank.py LLAMA_SERVER        (pip install gguf numpy)

Writes reference_*_reranker.gguf (float32) and rerank.json, with float32 KV. A text is a token a letter."""
import json
import sys

from llama_server import served
from make_reference import CASES, HERE, write_model

RERANKERS = {
    "qwen3_reranker": ("qwen3", 24, 20, 4, 2, 16, 16, 1e6, 2,
                       {"head_norms": True, "labels": ["yes", "no"],
                        "texts": ["\u2581", *"abcdefghijklmnopqrstuvwxyz0123456789.,:?!'-/"],
                        "template": "<s>query: {query} document: {document}</s>yes or no?"}),
}
QUERY = "what is a fox?"
DOCUMENTS = ["a fox is a small dog.", "two plus two is four.", "", "x", "the fox, said the dog, ran home: 'why?'"]


def main():
    CASES.update(RERANKERS)
    cases = []
    for case in RERANKERS:
        path = HERE / f"reference_{case}.gguf"
        write_model(path, case)
        with served(sys.argv[1], path, "--reranking") as post:
            results = post("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})["results"]
        scores = [result["relevance_score"] for result in sorted(results, key=lambda result: result["index"])]
        cases.append({"file": path.name, "query": QUERY, "documents": DOCUMENTS, "scores": scores})
    (HERE / "rerank.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
