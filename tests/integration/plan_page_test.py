"""`cpfeed plan --html` in a real browser: drawn, readable, nothing cut off."""

import os
import re
import struct
import subprocess
import tempfile
import unittest
import zlib

CPFEED = "client/cli/cpfeed"
BROWSER = "/usr/bin/chromium-headless-shell"

LENGTHS = "\n".join(str(17 * i * i % 4096 + 1) for i in range(1, 60))

# Appended to a copy of the page; what it finds becomes the page's text.
PROBE = """
<script>
addEventListener("load", () => {
  const box = e => e.getBoundingClientRect();
  const all = [...document.body.querySelectorAll("*")];
  const text = all.filter(e => !e.children.length && e.textContent.trim());
  const cards = [...document.querySelectorAll(".card")];
  const found = {
    columns: new Set(cards.map(e => Math.round(box(e).left))).size,
    over: all.filter(e => box(e).right > innerWidth + 1).length,
    small: text.filter(e => parseFloat(getComputedStyle(e).fontSize) < 12)
        .map(e => e.textContent),
    clipped: text.filter(e => e.scrollWidth > e.clientWidth + 1 &&
                              getComputedStyle(e).display != "inline").length,
    flat: [...document.querySelectorAll("svg")]
        .filter(e => box(e).width < 100 || box(e).height < 8).length,
  };
  document.body.innerHTML = "<pre id=found>" + JSON.stringify(found) + "</pre>";
});
</script>
"""


def browse(page, width, *flags):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run(
            [BROWSER, "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--enable-logging=stderr", f"--user-data-dir={home}",
             f"--window-size={width},1600", *flags, "file://" + page],
            capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "HOME": home})


def pixels(png):
    """The rows of an 8-bit PNG without interlacing, as bytes; and its bpp."""
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", png[16:29])
    assert depth == 8 and kind in (2, 6)
    bpp = 3 if kind == 2 else 4
    data, at = b"", 8
    while at < len(png):
        size, name = struct.unpack(">I4s", png[at:at + 8])
        if name == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += size + 12
    raw = zlib.decompress(data)
    rows, before, stride = [], bytes(width * bpp), width * bpp
    for y in range(height):
        method = raw[y * (stride + 1)]
        row = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride if method else 0):
            left = row[x - bpp] if x >= bpp else 0
            up, corner = before[x], before[x - bpp] if x >= bpp else 0
            if method == 1:
                guess = left
            elif method == 2:
                guess = up
            elif method == 3:
                guess = (left + up) // 2
            else:
                guess = min((left, up, corner),
                            key=lambda v: abs(left + up - corner - v))
            row[x] = (row[x] + guess) & 255
        before = bytes(row)
        rows.append(before)
    return rows, bpp


class PlanPageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page = os.path.join(cls.folder.name, "plan.html")
        subprocess.run(
            [CPFEED, "plan", "--lengths", "-", "--cp_size", "4", "--layout",
             "balanced,head_tail_per_sequence,ptrr", "--html", cls.page],
            input=LENGTHS, text=True, check=True, stdout=subprocess.PIPE)
        with open(cls.page, encoding="utf-8") as file:
            cls.html = file.read()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def probe(self, width):
        path = os.path.join(self.folder.name, "probe.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html.replace("</body>", PROBE + "</body>"))
        done = browse(path, width, "--dump-dom")
        self.assertNotIn("CONSOLE", done.stderr)
        return re.search(r"<pre id=\"found\">(.*)</pre>", done.stdout).group(1)

    def test_text_is_readable_and_nothing_sticks_out(self):
        fine = '"over":0,"small":[],"clipped":0,"flat":0}'
        self.assertEqual(self.probe(1280), '{"columns":2,' + fine)
        self.assertEqual(self.probe(800), '{"columns":1,' + fine)

    def test_all_is_there_as_the_browser_reads_it(self):
        done = browse(self.page, 1280, "--dump-dom")
        self.assertNotIn("CONSOLE", done.stderr)
        for text in ["59 sequences", "BALANCED", "rank 3", "attention area",
                     "key-value rows received", "at best",
                     # PTRR and head-tail need slots that divide.
                     "must be a multiple of"]:
            self.assertIn(text, done.stdout)
        self.assertEqual(done.stdout.count('class="card"'), 3)
        self.assertNotRegex(self.html, r"(src|href)=")  # Needs nothing else.

    def test_the_picture_has_every_ranks_colour(self):
        shot = os.path.join(self.folder.name, "shot.png")
        browse(self.page, 800, "--screenshot=" + shot)
        with open(shot, "rb") as file:
            rows, bpp = pixels(file.read())
        counts = {}
        for row in rows[::3]:
            for x in range(0, len(row), 3 * bpp):
                colour = row[x:x + 3]
                counts[colour] = counts.get(colour, 0) + 1
        vivid = [c for c, n in counts.items()
                 if n > 60 and max(c) - min(c) > 100]
        self.assertGreaterEqual(len(vivid), 4, counts)


if __name__ == "__main__":
    unittest.main()
