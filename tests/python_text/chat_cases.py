# SPDX-License-Identifier: Apache-2.0
"""Conversations and template snippets on which our templates and Python's jinja2 must agree."""

SYSTEM = {"role": "system", "content": "You are terse.\n  Be kind. "}
HELLO = {"role": "user", "content": " Hello, \"world\" <b> & 'x' — 日本 🙂\n"}
ANSWER = {"role": "assistant", "content": "\nHi there!\n\n"}
AGAIN = {"role": "user", "content": "And again /no_think?"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nSure."}
REASONED = {"role": "assistant", "content": "Sure.", "reasoning_content": "\nI thought.\n"}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather \"now\" – ü", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0, "maximum": 7.5}},
        "required": ["city"], "additionalProperties": False}}}
EMPTY_TOOL = {"type": "function", "function": {"name": "noop", "parameters": {}, "return": {"type": "null"}, "strict": True}}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}}]}
CALL_TEXT = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Zürich\"}"}}]}
CALLS = {"role": "assistant", "content": "Two calls.", "tool_calls": CALL["tool_calls"] * 2}
RESULT = {"role": "tool", "content": "{\"temp\": 21.5}", "tool_call_id": "abcdef123", "name": "get_weather"}
RESULT_OBJECT = {"role": "tool", "content": {"temp": 21.5, "ok": True, "x": None}, "tool_call_id": "abcdef123"}
IPYTHON = {"role": "ipython", "content": ["a", 1, 2.0]}

CONVERSATIONS = {
    "empty": [],
    "user": [HELLO],
    "system": [SYSTEM, HELLO],
    "system only": [SYSTEM],
    "turns": [HELLO, ANSWER, AGAIN],
    "system turns": [SYSTEM, HELLO, ANSWER, AGAIN, THOUGHT, HELLO],
    "ends with assistant": [HELLO, ANSWER],
    "two users": [HELLO, AGAIN],
    "late system": [HELLO, SYSTEM, AGAIN],
    "thoughts": [HELLO, THOUGHT, AGAIN, REASONED],
    "tool call": [HELLO, CALL, RESULT, ANSWER, AGAIN],
    "tool call as text": [HELLO, CALL_TEXT, RESULT],
    "tool calls": [SYSTEM, HELLO, CALLS, RESULT, RESULT, ANSWER],
    "tool result object": [HELLO, CALL, RESULT_OBJECT],
    "ipython": [SYSTEM, HELLO, CALL, IPYTHON],
    "last is call": [HELLO, CALL],
    "missing content": [{"role": "user"}],
    "missing role": [{"content": "x"}],
    "content parts": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    "unknown role": [{"role": "narrator", "content": "x"}],
    "short id": [HELLO, {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": {}}}]}],
}
VARIANTS = [
    {},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "tools": [WEATHER, EMPTY_TOOL]},
    {"tools": []},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"tools": [WEATHER], "tools_in_user_message": False, "date_string": "1 Jan 2025"},
    {"builtin_tools": ["code_interpreter", "get_weather"], "custom_tools": [WEATHER], "add_generation_prompt": True},
    {"enable_thinking": True, "bos_token": "<B>"},
]

DATA = {"n": None, "t": True, "i": 7, "f": 2.5, "big": 1e20, "tiny": 1.5e-7, "s": "héllo Wörld", "e": "", "l": [3, 1, 2],
        "long": 2**64 - 1, "ll": [[1, 2], [3]],
        "d": {"b": 1, "a": {"x": [1, "y"]}}, "people": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 25}, {"name": "Cy"}],
        "ws": " \t a  b\n\nc ", "q": "it's \"q\"\\", "html": "<a href='x'>&</a>", "list_text": "a,b,,c"}

# Each is rendered with DATA; both sides must give the same text, or both an error.
SNIPPETS = r"""
{{ n }}|{{ t }}|{{ i }}|{{ f }}|{{ big }}|{{ tiny }}|{{ s }}|{{ e }}|{{ l }}|{{ d }}|{{ q }}
{{ [q, s, n, t] }}
{{ missing }}|{{ d.missing }}|{{ d['missing'] }}|{{ l[9] }}|{{ s.nothing }}|{{ n.x }}
{{ missing.x }}
{{ d.missing.x }}
{{ missing() }}
{{ missing + 1 }}
{{ missing ~ 'x' }}|{{ missing == missing }}|{{ missing is defined }}|{{ missing|length }}
{{ 'a' in missing }}|{{ not missing }}
{{ missing < 1 }}
{{ 1 + 2 * 3 - 4 / 2 }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}
{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 1_000 }}
{{ 2 ** 3 ** 2 }}|{{ -2 ** 2 }}|{{ (1, 2) + (3,) }}|{{ [1] + [2] }}|{{ 'ab' * 3 }}|{{ [0] * 2 }}|{{ 3 * 'x' }}
{{ t + 1 }}|{{ 1 / 3 }}
{{ 'a' + 1 }}
{{ 1 // 0 }}
{{ 'a' ~ 1 ~ n ~ 2.0 }}|{{ 1 ~ 2 }}|{{ -i|abs }}|{{ -3|abs }}|{{ 1 + i|abs }}
{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 1 == 1.0 }}|{{ t == 1 }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ 1 != 2 }}
{{ 2 >= 2 }}|{{ 'a' == 1 }}
{{ 1 < 'a' }}
{{ t and 0 }}|{{ 0 or 'x' }}|{{ '' or none }}|{{ not 1 }}|{{ not not 1 }}|{{ t and not n }}
{{ 1 if t else 2 }}|{{ 1 if n }}|{{ 1 if n else 2 if e else 3 }}
{{ 3 in l }}|{{ 9 not in l }}|{{ 'a' in d }}|{{ 'llo' in s }}|{{ '' in s }}|{{ 1 in (1, 2) }}|{{ not 3 in l }}
{{ 1 in 5 }}
{{ 1 in 'a1' }}
{{ l[0] }}|{{ l[-1] }}|{{ l[1:] }}|{{ l[::-1] }}|{{ l[:2] }}|{{ l[-2:] }}|{{ s[0] }}|{{ s[-5:] }}
{{ s[1:8:2] }}|{{ s[::-1] }}|{{ l[5:] }}|{{ l[3:0:-2] }}|{{ s[20:] }}
{{ l[::0] }}
{{ d.a.x[1] }}|{{ d['a']['x'][0] }}|{{ ll[0][1] }}|{{ ll.0.1 }}|{{ d.items()|list }}|{{ d.get('b') }}
{{ d.get('z') }}|{{ d.get('z', 5) }}
{{ d.keys()|list }}|{{ d.values()|list|length }}|{{ d|length }}|{{ d|list }}|{{ d.items()|list|length }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}|{% for k, v in d|dictsort %}{{ k }}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{% endfor %}
{% for x in l %}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.depth }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %}|{% for x in missing %}a{% else %}none{% endfor %}
{% for c in 'añ' %}<{{ c }}>{% endfor %}
{% for x in n %}a{% endfor %}
{% for x in 5 %}a{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in ll recursive %}[{{ loop(x) if x is iterable else x }}]{% endfor %}
{% for x in [[1, [2, 3]], 4] recursive %}{{ loop.depth }}{{ '(' ~ loop(x) ~ ')' if x is iterable else x }}{% endfor %}
{% for x in range(3) %}{% for y in range(x) %}{{ loop.index }}{{ y }}{% endfor %};{{ loop.index }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% for i in [1, 2] %}{{ y }}{% set y = i %}{{ y }}{% endfor %}{{ y }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set d2 = (1,) %}{{ d2 }}{% set z = () %}{{ z }}
{% set d.x = 1 %}
{% set x %}  body {{ i }} {% endset %}[{{ x }}]
{% set y | trim | upper %}  body {% endset %}[{{ y }}]
{% if t %}{% set inner = 1 %}{% endif %}{{ inner }}
{% with a = 1, b = i %}{{ a }}{{ b }}{% set q2 = 3 %}{% endwith %}{{ a }}{{ q2 }}
{% if n %}1{% elif e %}2{% elif i %}3{% else %}4{% endif %}|{% if not n and (e or i) %}x{% endif %}
{% macro f(a, b=2, c=a) %}<{{ a }},{{ b }},{{ c }}>{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=5, a='q') }}{{ f() }}
{% macro f(a) %}{{ varargs }}{{ kwargs }}{{ a }}{% endmacro %}{{ f(1, 2, 3, k=4) }}
{% set v = 1 %}{% macro f() %}{{ v }}{% set w = 5 %}{% endmacro %}{{ f() }}{% set v = 2 %}{{ f() }}{{ w }}
{% macro f(n2) %}{% if n2 > 0 %}{{ n2 }}{{ f(n2 - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}
{% macro box(t2) %}[{{ t2 }}:{{ caller() }}]{% endmacro %}{% call box('x') %}in {{ i }}{% endcall %}
{% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(y) each(l) %}<{{ y }}>{% endcall %}
{% set v = 1 %}{% block a %}{{ v }}{{ i }}{% set v = 2 %}{{ v }}{% set w = 3 %}{% endblock %}{{ v }}{{ w }}
{% block b %}x{% endblock b %}
{% for x in l %}{% block inner scoped %}{{ x }}{{ loop.index }}{% endblock %};{% endfor %}
{% block c %}{% for x in l %}{{ x }}{% endfor %}{% block d scoped %}{{ i }}{% endblock d %}{% endblock %}
{% block e %}1{% endblock %}{% block e %}2{% endblock %}
{% block f %}1{% endblock g %}
{% block %}1{% endblock %}
{% block h %}1
{% for x in l %}{% block j scoped %}{% break %}{% endblock %}{% endfor %}
{% filter upper %}abc {{ s }}{% endfilter %}|{% filter replace('a', 'b') | upper %}aaa{% endfilter %}
{{ 'x' is string }}|{{ 1 is number }}|{{ t is number }}|{{ t is boolean }}|{{ t is integer }}
{{ 1 is integer }}|{{ f is float }}|{{ d is mapping }}|{{ l is sequence }}|{{ s is iterable }}
{{ n|selectattr('a')|list }}|{{ 0|map('upper')|list }}|{{ false|reject|list }}|{{ n|select('odd')|list|length }}
{{ n|rejectattr('a', 'equalto', 1)|list }}|{{ 1|map('upper')|list }}
{{ d is iterable }}|{{ n is none }}|{{ n is iterable }}|{{ i is iterable }}
{{ t is true }}|{{ 1 is true }}|{{ false is false }}|{{ n is not none }}|{{ i is odd }}|{{ i is even }}
{{ 9 is divisibleby 3 }}|{{ 9 is divisibleby(2) }}|{{ 1 is sameas 1 }}|{{ 'a' is in 'abc' }}
{{ 'A' is upper }}|{{ 'a' is lower }}|{{ range is callable }}
{{ 1 is eq 1 }}|{{ 1 is equalto 2 }}|{{ 1 is ne 2 }}|{{ 2 is gt 1 }}|{{ 2 is ge 2 }}|{{ 1 is lt 2 }}
{{ 1 is le 0 }}|{{ s is defined and n is none }}|{{ not s is defined }}|{{ missing is undefined or 1 }}
{{ 'x' if s is string else 'y' }}|{{ missing is not defined }}|{{ d.a is defined }}
{{ 1 is frobnicate }}
{{ 1|frobnicate }}
{% frobnicate %}
{{ s|upper }}|{{ s|lower }}|{{ s|capitalize }}|{{ s|title }}|{{ s|length }}|{{ s|first }}|{{ s|last }}
{{ s|reverse }}|{{ s|list }}|{{ ws|trim }}|{{ 'xxaxx'|trim('x') }}|{{ 'foo-bar (baz) q'|title }}
{{ s|replace('l', 'L') }}|{{ s|replace('l', 'L', 1) }}|{{ 'abc'|center(9) }}|{{ i|string + 'x' }}
{{ n|string }}|{{ html|e }}|{{ html|escape }}|{{ html|safe }}|{{ 'a b  c'|wordcount }}
{{ missing|default('x') }}|{{ n|default('x') }}|{{ e|default('x', true) }}|{{ n|d('y', boolean=true) }}
{{ missing|default }}|{{ d.zz|default(d.b) }}
{{ l|sort }}|{{ l|sort(reverse=true) }}|{{ ['b', 'A', 'c']|sort }}
{{ ['b', 'A', 'c']|sort(case_sensitive=true) }}
{{ people|selectattr('age')|sort(attribute='age')|map(attribute='name')|join(', ') }}
{{ l|join }}|{{ l|join('-') }}|{{ people|join(', ', attribute='name') }}|{{ l|sum }}
{{ people|selectattr('age', 'defined')|sum(attribute='age') }}|{{ l|min }}|{{ l|max }}|{{ []|first }}
{{ [1, 2, 1, 3]|unique|list }}|{{ ['a', 'A', 'b']|unique|list }}
{{ [{'a_name_of_some_length': {'one_more_within': [7, 8]}}]|map(attribute='a_name_of_some_length.one_more_within.1')|join }}
{{ people|map(attribute='age', default=0)|list }}|{{ people|map('length')|list }}
{{ ['a', 'b']|map('upper')|list }}|{{ l|select('odd')|list }}|{{ l|reject('odd')|list }}|{{ l|select|list }}
{{ people|selectattr('name', 'equalto', 'bob')|list }}|{{ people|rejectattr('age')|list }}
{{ l|map('string')|map('replace', '1', 'one')|list }}|{{ l|select('gt', 1)|list }}
{{ l|select('in', [1, 2])|list }}
{{ people|selectattr('age')|selectattr('age', 'ge', 30)|map(attribute='name')|first }}
{{ [1, 2, 3, 4, 5]|batch(2)|list }}|{{ [1, 2, 3]|batch(2, 0)|list }}|{{ l|reverse|list }}|{{ l|last }}
{{ d|items|list }}|{{ missing|items|list }}|{{ (1, 2)|list }}
{{ d|dictsort }}|{{ {'b': 1, 'A': 2}|dictsort }}|{{ {'b': 1, 'A': 2}|dictsort(by='value') }}
{{ {'b': 1, 'A': 2}|dictsort(true) }}|{{ {'b': 1, 'A': 2}|dictsort(reverse=true) }}
{% for g, items in people|selectattr('age')|groupby('age') %}{{ g }}:{{ items|length }} {% endfor %}
{{ '3'|int }}|{{ '3.7'|int }}|{{ 'x'|int }}|{{ 'x'|int(5) }}|{{ 3.9|int }}|{{ 'ff'|int(0, 16) }}
{{ '2.5'|float }}|{{ 'x'|float }}|{{ 3|float }}|{{ t|int }}|{{ 2.567|round(2) }}|{{ 2.5|round }}
{{ 3.5|round }}|{{ 2.1|round(0, 'ceil') }}|{{ 2.9|round(method='floor') }}|{{ 1234|round(-2) }}|{{ f|abs }}
{{ d|tojson }}|{{ d|tojson(indent=2) }}|{{ l|tojson }}|{{ [] |tojson(indent=2) }}|{{ {}|tojson }}
{{ s|tojson }}|{{ q|tojson }}|{{ n|tojson }}|{{ t|tojson }}|{{ f|tojson }}|{{ big|tojson }}|{{ html|tojson }}
{{ "\u2028\x01\x7f\t"|tojson }}|{{ (1, 2)|tojson }}|{{ 1.0|tojson }}
{{ {'b': 1, 'a': [1, {'z': none}]}|tojson(sort_keys=true, indent=1) }}|{{ l|tojson(separators=(',', ':')) }}
{{ s|tojson(ensure_ascii=true) }}|{{ '🙂'|tojson(true) }}|{{ {1: 2, none: 3}|tojson }}
{{ d|tojson(indent='--') }}
{{ long }}|{{ long|tojson }}|{{ [long]|tojson }}|{{ [long] }}|{{ 'x' ~ long }}|{{ long|string }}|{{ '%d' % long }}
{{ long == long }}|{{ long > 9223372036854775807 }}|{{ long < 1 }}|{{ long == 1 }}|{{ long > 2.5 }}|{{ 1 < long }}
{{ [long, 1]|sort }}|{{ [long, 1]|max == long }}|{{ long is integer }}|{{ long is number }}|{{ long is float }}
{{ 1 if long }}|{{ long|float }}|{{ '%d' % t }}|{{ long|int }}|{{ long in [1, long] }}|{{ {'a': long} }}
{{ '<b>'|safe + '<i>' + q }}|{{ '<i>' + '<b>'|safe }}|{{ ('<b>'|safe) ~ '<i>' }}
{{ '<b>'|e|e }}|{{ '&'|e|forceescape }}|{{ ['<b>'|safe] }}
{{ '<b>'|safe is escaped }}|{{ '<b>' is escaped }}|{{ ('<b>'|safe).upper() + '<' }}
{{ ('<b>'|safe)[0] + '<' }}|{{ ('<b>'|safe)[1:] + '<' }}
{{ ('<%s>'|safe) % '<' }}|{{ ('<%r>'|safe) % '<' }}|{{ ('<%s>'|safe)|format('<') }}
{{ ('<{}>'|safe).format('<') }}|{{ ('a'|safe).replace('a', '<') }}
{{ (','|safe).join(['<', 'b']) }}|{{ ['<', 'b']|join(','|safe) }}
{{ ('a,b'|safe).split(',')[0] + '<' }}|{{ ('a'|safe) * 2 + '<' }}
{{ ' a '|safe|trim + '<' }}|{{ 'a'|safe|upper + '<' }}|{{ 'a'|safe|title + '<' }}
{{ 'a'|safe|string + '<' }}|{{ 'a\nb'|safe|indent + '<' }}
{{ 'ab'|safe|reverse + '<' }}|{{ 'a'|safe|center(3) + '<' }}
{{ 'abcdefghijkl'|safe|truncate(5, true, '<') }}|{{ 'a'|safe|replace('a', 'b') + '<' }}
{{ (','|safe).join([1]) }}
{{ '{i:d}|{:5}|{:>5}|{:^5}|{:*<5}|{:é^4}'.format('a', 'b', 'c', 'd', 'e', i=7) }}
{{ '{!r}|{!s:>3}|{a!r}'.format('x', 1, a=none) }}
{{ '{:05d}|{:+d}|{:x}|{:#x}|{:.2f}'.format(42, 3, 255, 255, 2.345) }}
{{ '{:8.3f}|{:e}|{:<6d}|{:.2s}|{}'.format(3.14159, 12345.678, 7, 'abc', f) }}
{{ '{:5}|{:d}|{:<3}|{:.1f}'.format(t, t, i, i) }}
{{ '{:d}'.format('a') }}
{{ '{:d}'.format(1.5) }}
{{ '{:.2d}'.format(1) }}
{{ '{:5}'.format(none) }}
{{ '{}{0}'.format(1) }}
{{ l|map('string')|tojson }}
{{ l|select|length }}
{{ l|reverse|length }}|{{ d.items()|length }}|{{ d.keys()|length }}|{{ range(4)|length }}
{{ d.items() }}|{{ d.keys() }}|{{ d.values() }}|{{ range(3) }}|{{ range(1, 9, 2) }}|{{ [d.keys()] }}
{{ d.keys()[0] }}|{{ range(5)[1] }}|{{ range(5)[-1] }}|{{ range(9)[2:7:2] }}|{{ range(3)[::-1] }}|{{ range(3)[::-1]|list }}
{{ d.values()[1:] }}
{{ d.keys() + l }}
{{ range(3) + l }}
{{ d.keys() * 2 }}
{{ d.items()|tojson }}
{{ range(2)|tojson }}
{{ 1 if []|select else 2 }}|{{ 1 if {}.items() else 2 }}|{{ 1 if range(0) else 2 }}|{{ 1 if missing|items else 2 }}
{% set g = l|select %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% else %}none{% endfor %}|{{ g|list }}
{% set g = l|map('string') %}{{ g|first }}{{ g|list }}|{% set g = l|reject('none') %}{{ 1 in g }}{{ g|list }}{{ 5 in g }}
{{ l|map('string')|last }}
{{ l|map('string') is sequence }}|{{ l|map('string') is iterable }}|{{ d.items() is sequence }}
{{ range(2) is sequence }}|{{ d.keys() is mapping }}
{{ d.keys() == d.keys() }}|{{ d.items() == d.items() }}|{{ d.values() == d.values() }}
{{ range(3) == range(3) }}|{{ l|map('string') == [] }}
{{ 'b' in d.keys() }}|{{ ('b', 1) in d.items() }}|{{ 2 in range(3) }}|{{ d.keys() is sameas d }}
{{ dict(d.items()) }}|{{ dict([('a', 1), ['b', 2]]) }}|{{ dict(['ab']) }}
{{ dict([(1, 2, 3)]) }}
{{ dict(missing) }}
{{ {[1]: 2} }}
{{ [1] in {} }}
{{ {d.keys(): 1} }}
{{ [[1]]|unique|list }}
{{ {(1, 2): 3} }}
{{ missing|int }}
{{ d.missing|float }}
{{ missing|indent }}
{{ i|indent }}
{{ missing|truncate }}|{{ missing|truncate(3) is defined }}
{{ i|truncate }}
{{ missing|dictsort }}
{{ '%s|%r' % (missing, d.missing) }}|{{ '%s' % missing }}
{{ 2.5 is odd }}|{{ 3.0 is odd }}|{{ 4.0 is even }}|{{ 4.5 is divisibleby(1.5) }}|{{ t is odd }}
{{ 'a' is odd }}
{{ missing is callable }}
{{ 1 is defined if t }}
{{ s is string in ['a'] }}
{{ s is string not in [] }}
{{ s is defined(1) }}
{{ [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}]|sort(attribute='a,b') }}|{{ l|sort(attribute='x') }}
{{ people|sort(attribute='name,age')|length }}
{% filter length %}abc{% endfilter %}
{% for x in l %}{% continue %}{% else %}none{% endfor %}|{% for x in l %}{% break %}{% else %}none{% endfor %}
{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{% else %}none{% endfor %}
{% generation %}{% set inner2 = 1 %}{{ inner2 }}{% endgeneration %}{{ inner2 }}
{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{{ missing|tojson }}
{{ range|tojson }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}
{{ 'a\nb'|indent('>') }}|{{ 'a\n'|indent }}
{{ 'hello big world'|truncate(9) }}|{{ 'hello big world'|truncate(9, true) }}
{{ 'hello big world'|truncate(9, true, '') }}|{{ 'hello big world'|truncate(11, leeway=0) }}
{{ 'short'|truncate(3) }}
{{ '%s-%d-%5.2f-%x-%%'|format('a', 7, 2.345, 255) }}|{{ '%s' % s }}|{{ '%s %s' % (1, 2) }}
{{ '%(a)s'|format(a=3) }}|{{ '%05d|%-5s|%+d|%5s' % (42, 'ab', 3, 'é') }}|{{ '%r' % 'x' }}
{{ '%e' % 12345.678 }}|{{ '%g' % 0.0001 }}
{{ '%.3d|%05.3d|%-6.2d|%+.4d|% .3i' % (5, 5, 5, -5, 5) }}
{{ '%#x|%#o|%#X|%#06x|%#.4x|%-#6x|' % (255, 8, -255, 255, 255, 5) }}
{{ '%#g|%#.0f|%#.3e|%#s|%#d' % (1.0, 2.0, 3.0, 'a', 4) }}|{{ '%06.2f|%+06d|%.3x' % (-2.5, 42, 10) }}
{{ '+2.5'|float }}|{{ '1_000'|int }}|{{ '1_000.2_5'|float }}|{{ '0x1f'|int(base=16) }}|{{ '-0X_1f'|int(0, 16) }}
{{ '0o17'|int(0, 8) }}|{{ '0b11'|int(base=0) }}|{{ '0x1f'|int(base=0) }}|{{ '010'|int(base=0) }}|{{ '12'|int(base=0) }}
{{ '0x1f'|int }}|{{ '12'|int(7, 99) }}
{{ '1__0'|int(7) }}|{{ '_1'|int(7) }}|{{ '1_'|float(7) }}|{{ '+-5'|int(7) }}|{{ '--5'|int(7) }}
{{ '+-5'|float(7) }}|{{ ' +5 '|int }}
{{ '-9223372036854775808'|int }}|{{ '18446744073709551615'|int }}|{{ '1_e5'|float(7) }}|{{ '0x-5'|int(7, 16) }}|{{ ''|int(7) }}
{{ -0.0 }}|{{ -f }}|{{ - -0.0 }}|{{ -0 }}|{{ [-0.0]|tojson }}|{{ 'nan'|float|int(7) }}
{{ strftime_now('%H:%M:%S.%f %%f %%%f') }}
{{ '%d' % 'x' }}
{{ '%s %s' % (1,) }}
{{ s.upper() }}|{{ s.lower() }}|{{ s.title() }}|{{ s.capitalize() }}|{{ s.split() }}
{{ list_text.split(',') }}|{{ list_text.split(',', 1) }}|{{ list_text.rsplit(',', 1) }}|{{ ws.split() }}
{{ ws.split(None, 1) }}|{{ ws.rsplit(None, 1) }}|{{ ws.strip() }}|{{ ws.lstrip() }}|{{ ws.rstrip() }}
{{ 'xaxy'.strip('xy') }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}
{{ 'xéyé'.strip('éx') }}|{{ 'é字aé'.lstrip('字éa') }}|{{ 'aé字'.rstrip('字字') }}|{{ 'é字'|trim('x字') }}|{{ 'ab'.strip('') }}
{{ 'aaaaa'.split('aa') }}|{{ 'aaaaa'.rsplit('aa') }}|{{ 'aaaaa'.rsplit('aa', 1) }}|{{ 'aaaaa'.rsplit('aa', 0) }}
{{ 'é字é字x'.rsplit('字', 1) }}|{{ 'é字é字'.rsplit('字') }}|{{ 'ab'.rsplit('abc') }}|{{ ''.rsplit('a') }}|{{ 'ab'.rsplit('ab') }}
{{ 'aaaaa'.rfind('aa') }}|{{ 'aaaaa'.rpartition('aa') }}|{{ 'é字é'.rfind('é') }}
{{ 'ab'.rfind('') }}|{{ ''.rfind('') }}|{{ 'ba'.rfind('ab') }}
{{ 'aaa'.replace('a', 'b', -9223372036854775807 - 1) }}|{{ 'aaa'.split('a', -9223372036854775807 - 1) }}
{{ s.startswith('hé') }}|{{ s.endswith('ld') }}|{{ s.startswith(('a', 'h')) }}|{{ s.find('l') }}
{{ s.rfind('l') }}|{{ s.find('z') }}|{{ s.index('W') }}|{{ s.count('l') }}|{{ s.count('') }}
{{ s.count('l', 4) }}|{{ s.count('l', -3, -1) }}|{{ s.count('', 4) }}|{{ s.count('', 99) }}
{{ s.find('l', 4) }}|{{ s.find('l', 4, 9) }}|{{ s.find('', 11) }}|{{ s.find('', 12) }}|{{ s.find('é', none, 2) }}
{{ s.find('h', -99) }}
{{ s.rfind('l', 0, 9) }}|{{ s.rfind('', 2, 5) }}|{{ s.index('l', -3) }}|{{ s.rindex('l', 0, -3) }}|{{ s.find('', 5, 2) }}
{{ s.startswith('W', 6) }}|{{ s.startswith('', 12) }}|{{ s.startswith('hé', 0, 1) }}|{{ s.endswith('llo', 0, 5) }}
{{ s.endswith('', 4, 2) }}
{{ s.startswith(('x', 'l'), 2) }}|{{ s.endswith('é', none, 2) }}
{{ s.index('h', 1) }}
{{ s.find(1) }}
{{ s.count() }}
{{ l.index(3, 'x') }}
{{ [1, 2, 3, 4, 5]|slice(2)|list }}|{{ [1, 2, 3, 4, 5]|slice(3, 0)|list }}|{{ [1, 2]|slice(2, 'x')|list }}|{{ []|slice(2)|list }}
{{ [1]|slice(3, fill_with=0)|list }}|{{ 'abc'|slice(2)|list }}|{{ l|slice(-1)|list }}|{{ l|slice(slices=1)|list }}
{{ l|slice|list }}
{{ l|slice(0)|list }}
{{ s.replace('l', 'LL') }}|{{ s.replace('l', 'LL', 2) }}|{{ 'abc'.replace('', '-') }}
{{ '-'.join(['a', 'b']) }}
{{ {'a': 1}|attr('a') is defined }}|{{ 'x'|attr('upper') is defined }}
{{ 'x'|attr(0) is defined }}
{{ '%.1s|%.3s|%.0s' % ('éa', 'é', 'x') }}|{{ '%d' % 1e22 }}
{{ '-5'.zfill(4) }}|{{ '+5'.zfill(4) }}|{{ '-5'.zfill(1) }}|{{ ''.zfill(2) }}|{{ '--5'.zfill(5) }}
{{ 'a\nb\r\nc'.splitlines() }}|{{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4, '*') }}|{{ 'ab'.center(5, '-') }}
{{ 'a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\x1fj\rk\n\rl'.splitlines() }}|{{ 'a\n\n'.splitlines() }}
{{ 'a\nb\r\nc\u2028\r'.splitlines(true)|tojson }}|{{ 'a\nb'.splitlines(keepends=true)|tojson }}|{{ ''.splitlines(1) }}
{{ 'a\u2028b\x85\x0cc'|indent(2)|tojson }}|{{ 'a\x1db'|indent(2, true, true)|tojson }}
{{ 'abc'.center(6, '-') }}|{{ '7'.zfill(3) }}|{{ 'prefix-x'.removeprefix('prefix-') }}
{{ 'x.py'.removesuffix('.py') }}|{{ 'a=b=c'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}
{{ 'abc'.partition('z') }}
{{ '12'.isdigit() }}|{{ 'a1'.isalnum() }}|{{ 'ab'.isalpha() }}|{{ ' '.isspace() }}|{{ 'AB'.isupper() }}
{{ 'ab'.islower() }}|{{ ''.isdigit() }}|{{ 'A1'.isupper() }}|{{ '{} {}'.format(1, 'x') }}
{{ '{0}{1}{0} {a} {{}}'.format(1, 2, a=3) }}
{{ s.index('zz') }}
{{ ''.split('') }}
{{ l.append(1) }}
{{ d.update({'x': 1}) }}
{{ d.pop('b') }}
{{ l.index(2) }}|{{ l.count(1) }}|{{ l.copy() }}|{{ d.copy() }}
{{ range(3)|list }}|{{ range(1, 4)|list }}|{{ range(5, 0, -2)|list }}|{{ range(0)|list }}|{{ dict(a=1, b=2) }}
{{ dict(d, c=3)|length }}
{{ range(1000000)|list|length }}
{{ raise_exception('boom') }}
{% if false %}{{ raise_exception('boom') }}{% endif %}ok
{{ [1, 2, ] }}|{{ {'a': 1, } }}|{{ {'a': 1}.a }}|{{ 'a' 'b' }}|{{ "\x41\u00e9\n\t\\\'\"\101" }}|{{ 'a\
b' }}|{{ 0x1f }}
{{ 1.5e3 }}|{{ 1e16 }}|{{ 1e-5 }}|{{ 123456789.123 }}|{{ 1.0 }}|{{ 100000000000000000.0 }}|{{ 0.1 + 0.2 }}
{{ True }}{{ False }}{{ None }}{{ true }}{{ none }}
{{ 'a' if true }}{{ ('a', 'b')[1] }}{{ [1, 2, 3][1:][0] }}{{ 'abc'[1] }}{{ (i) }}{{ (1 + 2) * 3 }}
{{ d['items'] is callable }}|{{ d.items is defined }}|{{ {'items': 1}['items'] }}|{{ {'x': 1}.x }}
{{ loop }}|{{ self2 }}|{{ i.real2 }}
{#- comment -#}  a  {# c #}  b  {#- c #}   c
  {% if t %}
  yes
  {% endif %}
  end
a {%- if t %} b {%- endif %} c {%+ if t %} d{% endif +%}
e
{% raw %}{{ not }} {% if %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  y
  {%- for x in l %}
    {{ x }}
  {%- endfor %}

x
<a>   {{- i -}}   <b>   {{ i }}   <c>
{{ i }}
{{ i }}

{% generation %}text {{ i }}{% endgeneration %} more
{{ 'unclosed }}
{{ 1 + }}
{{ 1
{% if t %}
{% for %}{% endfor %}
{% endif %}
{% set %}
{% macro %}{% endmacro %}
{{ (1, }}
{{ 1 2 }}
{{ foo. }}
{{ a|}}
{{ ] }}
{{ $ }}
{% for x in l %}{{ x }}{% if x == 1 %}{% set found = x %}{% endif %}{% endfor %}{{ found }}
{% set a = [1, 2] + l %}{{ a|length }}{{ a[-1] }}{{ a == [1, 2, 3, 1, 2] }}{{ d == {'a': {'x': [1, 'y']}, 'b': 1} }}
{% for i in l %}{% with a = i %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% endwith %}{% endfor %}
{{ [1, 2]|select('divisibleby', num=2)|list }}|{{ [1, 2]|map('string')|list }}
{{ [1]|map(filter='string')|list }}
{{ [1]|map(5)|list }}
{{ {(1,): 2}|tojson }}
{{ messages[0].role }}{{ messages|length }}{{ messages[0]['content'][:5] }}{{ tools is none }}{{ add_generation_prompt }}
{{ (messages|selectattr('role', 'equalto', 'user')|list)[-1].content|trim }}
{{ bos_token + 'x' + eos_token }}
{{ strftime_now('%Y-%m-%d %H:%M') }}|{{ strftime_now('%d %b %Y') }}
""".strip("\n").split("\n")

# White space between lines.
SNIPPETS += [
    "  {% if t %}\n  yes\n  {% endif %}\n  end\n",
    "a {%- if t %} b {%- endif %} c {%+ if t %} d{% endif +%}\ne\n\n",
    "x\n  {#- c -#}\n  y\n  {# c #}\n  z {# d #}\n w",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\n\n",
    "  {%+ if t %}\n keep {%- endif +%}\n  tail",
    "<a>\n  {{- i -}}\n  <b>\n  {{ i }}\n  <c>\n\n\n",
    "\n\n{% raw %}\n  {{ x }} {# y #}\n  {% endraw %}\n  z",
    "  {%- raw -%}  a \n {%- endraw -%}  \n b",
    "a\r\nb\rc\n{% if t %}\r\nd{% endif %}\r\n",
    "{{ 'a\\\nb' }}{{ 'two\nlines' }}",
    "\t{% set x = 1 %}\t\n\t{{ x }}{% if t %}  \n  {% endif %}",
    "{{ i }}   {% if t %}a{% endif %}   {% if t %}\n   b{% endif %}",
    "{% if t %}\n\n\na{% endif %}\n\n{% macro f() %}\n  m\n{% endmacro %}\n{{ f() }}",
    "{% set n = namespace() %}{% for i in l %}{% for j in [1] recursive %}{% set n.l = loop %}{{ j }}{{ t }}{% endfor %}\n"
    "{% endfor %}{{ n.l([1, 2]) }}",
    "{# unclosed", "{% raw %} unclosed", "", "\n", "plain } text { with %} braces }} #}",
]
