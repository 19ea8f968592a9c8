#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The web page in a real browser, used with keyboard and eyes: what is drawn is compared with the engine's own counters.
    page_test.py PROGRAM [unittest arguments];  INFLIGHT_REPORT_DIR: screenshots go there. Exit 77 where Chromium is absent."""
import re
import tempfile
import time

import chromium
from server_process import Server

TEXT = "[...document.querySelectorAll('.message.theirs')].map(m => m.firstChild.textContent)"
SET = "Object.assign(document.querySelector('#parameters [name={0}]'), {{value: '{1}'}}).dispatchEvent(new Event('change'))"


class WebPage(chromium.PageTest):
    def page_of(self, width=1280, height=900, dark=False, port=None):
        page = self.browser.open(f"http://127.0.0.1:{port or self.server.port}/", width, height, dark)
        page.run("localStorage.clear(); sessionStorage.clear(); for (const name in kept) delete kept[name]; showParameters()")
        page.wait("document.querySelectorAll('#parameters label').length > 5 || document.querySelector('#served.wrong')")
        return page

    def test_it_is_one_file_that_loads_nothing_else(self):
        status, fields, body = self.server.request("GET", "/")
        self.assertEqual((status, fields.get_content_type()), (200, "text/html"))
        self.assertIn("default-src 'none'", fields["Content-Security-Policy"])
        self.assertEqual(re.findall(rb'(?:src|href)="(?!#|data:,"|/openapi.json"|/widget")[^"]*"', body), [])
        page = self.page_of()
        page.wait("live.latest")
        places = {url for url in page.requested() if not url.startswith("data:")}
        self.assertTrue(all(url.startswith(f"http://127.0.0.1:{self.server.port}/") for url in places), places)
        self.assertEqual(page.complaints(), [])

    def test_a_conversation_by_keyboard(self):
        page = self.page_of()
        page.run(SET.format("max_tokens", 30))
        page.run(SET.format("temperature", 0))
        page.run("document.querySelector('.card textarea').focus()")
        page.type("Tell me a story about a fox.")
        page.key("Enter")
        facts = page.wait("document.querySelector('.facts')?.textContent")
        answer = page.run(TEXT)[0]
        body = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}], "max_tokens": 30, "temperature": 0}
        self.assertEqual(answer, self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"])
        self.assertIn("30 tokens", facts)
        self.assertIn("length", facts)
        page.type("And then?")
        page.key("Enter")
        page.wait("document.querySelectorAll('.facts').length === 2")
        body["messages"] += [{"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
        self.assertEqual(page.run(TEXT)[1], self.server.post("/v1/chat/completions", body)["choices"][0]["message"]["content"])
        page.report("page-light")
        self.assertEqual(page.complaints(), [])

    def test_options_are_those_of_the_server_and_reach_it(self):
        page = self.page_of()
        _, _, description = self.server.request("GET", "/openapi.json")
        for mode, schema in (("chat", "ChatRequest"), ("completion", "CompletionRequest")):
            page.run(f"byId('mode').value = '{mode}'; byId('mode').dispatchEvent(new Event('change'))")
            shown = set(page.run("[...document.querySelectorAll('#parameters [name]')].map(c => c.name)"))
            known = set(description["components"]["schemas"][schema]["properties"])
            self.assertLessEqual(shown, known)
            self.assertLessEqual({"max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "n", "ignore_eos", "priority",
                                  "stop_token_ids", "cache_salt"}, shown)
        page.run(SET.format("max_tokens", 12))
        page.run(SET.format("n", 3))
        page.run(SET.format("seed", 5))
        page.run(SET.format("ignore_eos", "true"))
        page.run("chats[0].send('Once upon a time')")
        page.wait("!!document.querySelector('.facts')")
        body = {"prompt": "Once upon a time", "max_tokens": 12, "n": 3, "seed": 5, "ignore_eos": True}
        wanted = [choice["text"] for choice in self.server.post("/v1/completions", body)["choices"]]
        self.assertEqual(sorted(page.run(TEXT)), sorted(wanted))
        page.run("byId('toggle-options').click()")
        page.report("page-options")

    def test_errors_are_shown(self):
        page = self.page_of()
        page.run(SET.format("top_p", 7))
        page.run("chats[0].send('Hello')")
        message = page.wait("document.querySelector('.message.wrong')?.textContent")
        self.assertIn("top_p", message)
        self.assertEqual(page.run("chats[0].abort"), None)

    def test_stop_frees_the_engine(self):
        page = self.page_of()
        page.run(SET.format("max_tokens", 450))
        page.run(SET.format("n", 64))  # for a while
        page.run(SET.format("ignore_eos", "true"))
        page.run("document.querySelector('.card textarea').focus()")
        page.type("Count.")
        page.key("Enter")
        page.wait(TEXT + "[0]")
        page.key("Escape")
        self.assertIn("stopped", page.wait("document.querySelector('.facts')?.textContent"))
        self.assertTrue(page.run("document.querySelector('.stop').disabled"))
        self.assertEqual(self.server.wait_idle(5)["inflight_kv_cache_usage_perc"], 0)

    def test_many_chats_show_as_one_batch(self):
        for dark in (False, True):
            page = self.page_of(dark=dark)
            page.run("byId('chat-count').value = '4'; byId('chat-count').dispatchEvent(new Event('change'))")
            page.run("byId('to-all').checked = true")
            page.run(SET.format("max_tokens", 120))
            page.run(SET.format("ignore_eos", "true"))
            page.run("const add = addStep; window.most = 0;"
                     "addStep = step => { add(step); most = Math.max(most, step.cells.length); }")
            page.run("byId('load-box').open = true; byId('load-count').value = 16; byId('load').click()")
            page.run("chats[0].input.value = 'Tell me a story.'; submit(chats[0])")
            page.wait("document.querySelectorAll('.facts').length === 4 && !load.abort")
            self.assertIn("16 of 16 complete", page.run("byId('load-state').textContent"))
            page.wait("live.latest.running === 0 && most >= 16")
            lines = page.run("Math.max(...live.steps.flatMap(step => step.cells.map(cell => cell.line)))")
            self.assertLess(lines, 24)
            page.report("page-batch-dark" if dark else "page-batch-light")
        counted = self.server.metrics()  # of what has ended; the page may hear of it later
        page.wait(f"live.latest.tokens.output === {counted['inflight_generation_tokens_total']:.0f}")
        figures = page.run("live.latest")
        self.assertEqual(figures["tokens"]["output"], counted["inflight_generation_tokens_total"])
        self.assertEqual(figures["tokens"]["prompt"], counted["inflight_prompt_tokens_total"])
        for step in page.run("live.steps"):
            self.assertEqual(step["prefill"] + step["decode"], sum(cell["tokens"] for cell in step["cells"]))
            lines = [cell["line"] for cell in step["cells"]]
            self.assertEqual(len(lines), len(set(lines)), "two sequences on one line")
        # Something of each colour that must be there is there.
        for kind, canvas in (("prefill", "tokens"), ("decode", "sequences"), ("cached", "kv")):
            self.assertGreater(page.run(
                f"(() => {{ const c = byId('{canvas}'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                f"const [r, g, b] = colour('{kind}').match(/\\w\\w/g).map(x => parseInt(x, 16)); let n = 0;"
                "for (let i = 0; i < d.length; i += 4) n += d[i] === r && d[i + 1] === g && d[i + 2] === b; return n; })()"),
                0, kind)
        self.assertEqual(page.complaints(), [])

    def test_text_can_be_read(self):
        """WCAG AA: 4.5 to 1 for every text that is shown, light and dark; and nothing overflows a narrow window."""
        contrast = """(() => {
          const parse = c => c.match(/[\\d.]+/g).map(Number);
          const linear = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
          const light = c => { const [r, g, b] = c.map(linear); return .2126 * r + .7152 * g + .0722 * b; };
          const behind = e => {
            for (; e; e = e.parentElement) {
              const c = parse(getComputedStyle(e).backgroundColor);
              if (c.length < 4 || c[3] > 0) return c;
            }
            return [255, 255, 255];
          };
          const bad = [];
          for (const e of document.querySelectorAll('body *')) {
            if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.offsetParent || e.disabled) continue;
            const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
            const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
            if (ratio < 4.5) bad.push([e.tagName, e.className, e.textContent.slice(0, 30), ratio]);
          }
          return bad; })()"""
        for dark in (False, True):
            page = self.page_of(420, 900, dark)
            page.run("byId('toggle-options').click(); document.querySelector('details').open = true")
            page.run(SET.format("max_tokens", 8))
            page.run("chats[0].send('Hello')")
            page.wait("!!document.querySelector('.facts')")
            self.assertEqual(page.run(contrast), [])
            self.assertEqual(page.run("document.documentElement.scrollWidth"), 420)
            page.report("page-narrow-dark" if dark else "page-narrow-light")

    def test_reasoning_is_folded(self):
        """The template begins the reasoning, which the demo model does not end."""
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{{ messages[-1].content }}<think>")
            file.flush()
            with Server(self.program, "--chat-template", file.name) as thinking:
                page = self.page_of(port=thinking.port)
                page.run(SET.format("max_tokens", 20))
                page.run(SET.format("temperature", 0))
                page.run("chats[0].send('Once upon')")
                page.wait("!!document.querySelector('.facts')")
                body = {"messages": [{"role": "user", "content": "Once upon"}], "max_tokens": 20, "temperature": 0}
                message = thinking.post("/v1/chat/completions", body)["choices"][0]["message"]
                self.assertIsNone(message["content"])
                self.assertEqual(page.run("document.querySelector('.theirs details > span').textContent"),
                                 message["reasoning_content"])
                self.assertEqual(page.run("document.querySelector('.theirs > span').textContent"), "")
                self.assertFalse(page.run("document.querySelector('.theirs details').open"))
                self.assertEqual(page.complaints(), [])

    def test_with_an_api_key(self):
        with Server(self.program, "--api-key", "secret") as guarded:
            page = self.page_of(port=guarded.port)
            self.assertIn("enter it under Options", page.wait("document.querySelector('#served.wrong')?.textContent"))
            asked = sum("/inflight/stats" in url for url in page.requested())
            begin = time.monotonic()
            page.run("new Promise(done => setTimeout(done, 1500))")
            # Until the key comes the page asks now and then, not four times a second.
            allowed = 2 + asked + (time.monotonic() - begin) / 3
            self.assertLessEqual(sum("/inflight/stats" in url for url in page.requested()), allowed)
            page.run("keyField.value = 'secret'; keyField.dispatchEvent(new Event('change'))")
            page.wait("!document.querySelector('#served.wrong') && live.latest")
            page.run(SET.format("max_tokens", 5))
            page.run("chats[0].send('Hello')")
            page.wait("!!document.querySelector('.facts')")


if __name__ == "__main__":
    chromium.main()
