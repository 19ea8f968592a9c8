#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes pre_tokenizers.json: token ids of awkward texts under each published pre-tokenizer, by Hugging Face `tokenizers`
(PyPI: pip install tokenizers==0.23.3), with the vocabulary and merges of models/tinyworld.    make_pre_tokenizers.py"""
import json
import pathlib
import random

import tokenizers
from tokenizers import Regex
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

HERE = pathlib.Path(__file__).parent
MODEL = json.loads((HERE / "../../models/tinyworld/hf/tokenizer.json").read_text())["model"]

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
CASED = ("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ"
         "ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ί"
         "ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇ"
         "Ꞌ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
START = r"[^\r\n\p{L}\p{N}]?"


def split(*patterns):
    stages = [Split(Regex(pattern), "isolated") for pattern in patterns]
    return Sequence([*stages, ByteLevel(add_prefix_space=False, use_regex=False)])


PLAIN = ByteLevel(add_prefix_space=False, use_regex=True)
# As in the tokenizer.json of GPT-2, SmolLM2, Llama 3, Qwen2.5 and 3.5, Seed-Coder, GPT-4o, Mistral Nemo, DeepSeek LLM, coder, V3.
KINDS = {
    "gpt-2": PLAIN,
    "smollm": Sequence([Digits(individual_digits=True), PLAIN]),
    "llama-bpe": split(rf"{CONTRACTIONS}|{WORD}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"),
    "qwen2": split(rf"{CONTRACTIONS}|{WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"),
    "qwen35": split(rf"{CONTRACTIONS}"
                    rf"|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}"),
    "seed-coder": split(rf"{CONTRACTIONS}|{WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{SPACES}"),
    "gpt-4o": split(rf"{START}{UPPER}*{LOWER}+{CONTRACTIONS}?|{START}{UPPER}+{LOWER}*{CONTRACTIONS}?"
                    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"),
    "tekken": split(rf"{START}{UPPER}*{LOWER}+|{START}{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"),
    "deepseek-llm": Sequence([
        *(Split(Regex(pattern), "isolated") for pattern in (
            "[\r\n]", rf"\s?[{CASED}]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+")),
        Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=False)]),
    "deepseek-coder": Sequence([
        Split(Regex("[\r\n]"), "isolated"), Split(Regex(r"\s?\p{L}+"), "isolated"), Split(Regex(r"\s?\p{P}+"), "isolated"),
        Split(Regex("[一-龥ࠀ-一가-퟿]+"), "isolated"), Digits(individual_digits=True),
        ByteLevel(add_prefix_space=False, use_regex=False)]),
    "deepseek-v3": split(r"\p{N}{1,3}", "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
                         r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                         rf"""| ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}"""),
}
IGNORE_MERGES = {"llama-bpe", "tekken"}
COMPOSED = {"qwen2", "qwen35"}

TEXTS = [
    "", " ", "   ", "\n", "\n\n\n", " \n \n", "\t\t x", "  \n  word", "a\r\nb\r\n\r\n  c", "x \t\n\t y  ",
    "\xa0a\xa0\xa0b", "\u3000全角\u3000\u3000空白", "a\x85b\u2028c\u2029d", "a\u180eb \u180e", "a\x1cb\x1d\x1e\x1fc",
    "a\x0bb\x0cc", "nul\x00\x00 nul", "I'm you're he's we'll they'd I've don't",
    "I'M YOU'RE HE'S WE'LL THEY'D I'VE DON'T 'Ll 'rE", "'' 's' 'x 'tis ''s ' s", "1 12 123 1234 12345 123456 1234567",
    "3.14 1,000,000 1e-5 0x1F", "½ ² ௧௨௩ ٣٤٥ Ⅷ 一二三 ①②", "a1b22c333d4444", "-1 +2 $3 #4 %5",
    "foo_bar->baz(); // c++ & <html/> `x` ~y ^z | w", "!!!???...,,,;;;\n\n!!!\n",
    "url https://a.b/c?d=e&f=g#h\n/path//x/\r\n/",
    "Größe naïve Ελληνικά Кириллица العربية עברית हिन\u094dदी ไทย 한국어 日本語 中文",
    "e\u0301a\u0300\u0301 n\u0303o Z\u0351\u036b\u0343",
    "HTTPServer camelCase XMLHttpRequest iPhone ABCdefGHI ÀÉîÕü ǅungla", "🙂🙃 👩\u200d👩\u200d👧 🇩🇪 ❤️ x🚀y 🚀 z",
    "\ufeffbom \u200bzero \xadsoft", "“quoted” ‘single’ — – … «g» 「角」",
    "def f(x):\n    return x  # ok\n\n\nclass A:\n\tpass\n", "{\"a\": [1, 2.5, null], \"b\": \"c\\n\"}\n",
    "Once upon a time, there was a little girl named Lily. She said, \"Hello!\"", "        eight   three  two one",
    "end space ", "end newline\n", "\n start", "日本語のテキスト、漢字かな交じり文。ﾊﾝｶｸ", "한국어텍스트입니다 그리고 영어 mixed", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𐍈",
    "กำา ๑๒", "مَرْحَبًا بِٱلْعَالَمِ ١٢٣،", "น้ำผู้ใหญ่ ๔๕ เก่ง", "क्षत्रिय १२ र\u094dय\u0301", "שָׁלוֹם עֲלֵיכֶם",
    "x\u0308\u0308's y\u0331'LL q\u0301'x \u0301 \u0301\u0302", "\u0301\n\u0301 \r\n\u0301 1\u0301 2\u20e3 *\ufe0f#\u20e3",
]
PIECES = [
    "a", "B", "word", "The", " ", "  ", "\n", "\r", "\t", "1", "23", "4567", "'", "'s", "'LL", ".", "!?", "-", "_", "/",
    "é", "ß", "Ж", "字", "か", "한", "🙂", "\u0301", "\xa0", "\u2003", "٣", "½", "$", "<", ">", "|", "`", "(", ")", "ª",
    "ʰ", "ǅ", "\u200d", "\x00",
]


def main():
    generator = random.Random(20240917)
    texts = TEXTS + ["".join(generator.choices(PIECES, k=generator.randint(2, 24))) for _ in range(150)]
    merges = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in MODEL["merges"]]
    ids = {}
    for name, pre_tokenizer in KINDS.items():
        model = tokenizers.Tokenizer(BPE(MODEL["vocab"], merges, ignore_merges=name in IGNORE_MERGES))
        model.pre_tokenizer = pre_tokenizer
        if name in COMPOSED:
            model.normalizer = NFC()
        ids[name] = [model.encode(text, add_special_tokens=False).ids for text in texts]
    made_with = f"tokenizers {tokenizers.__version__}"
    lines = [f'{{"made_with": {json.dumps(made_with)}, "recipe": "tests/golden/make_pre_tokenizers.py", "texts": [']
    lines.append(",\n".join(json.dumps(text) for text in texts) + "],")
    lines.append('"ids": {')
    rows = []
    for name, lists in ids.items():
        body = ",\n".join(json.dumps(one, separators=(",", ":")) for one in lists)
        rows.append(f"{json.dumps(name)}: [\n{body}]")
    lines.append(",\n".join(rows) + "}}")
    (HERE / "pre_tokenizers.json").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
