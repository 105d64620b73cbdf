"""Turns a page of the documentation into text for a terminal, for `ration docs --text`; site.py calls it with the HTML of each page.

Paragraphs, list items and tables fit WIDTH columns; a table of short cells may need up to WIDEST. A table that does not fit becomes a small block for each row. Blocks of code are as written."""
import html.parser
import re
import unicodedata

WIDTH = 80
WIDEST = 100
GAP = 2  # columns between two columns of a table
NARROWEST = 24  # a column in which sentences can be read
CODE = 4  # columns in front of code
KEPT = "\u00a0"  # a space within code, where a line ends only if it has to
UNDERLINES = {"h1": "=", "h2": "-", "h3": "~"}
OPENING, CLOSING = "（《「『【〈“‘([", "，。、；：？！）》」』】〉”’…,.;:?!)]"
MARKS = r"\u3000-\u303f\uff00-\uffef"  # Chinese punctuation
CHINESE = r"\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef"  # what is written without spaces
# What a line can end behind: a space, a Chinese character or a word, with the punctuation that must stay at its side.
PIECE = re.compile(rf" |[{re.escape(OPENING)}]*(?:[{CHINESE}]|[^ {CHINESE}]+)[{re.escape(CLOSING)}]*")


def width(text):
    """Columns that a terminal needs; Chinese characters need two."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text if not unicodedata.combining(each))


def padded(text, columns):
    return text + " " * (columns - width(text))


def pieces(text, columns):
    """Of a text between the places where a line can end; none is wider than the columns."""
    for piece in PIECE.findall(text):
        parts = [piece] if width(piece) <= columns else re.findall(f"{KEPT}|[^{KEPT}]+", piece)
        for part in parts:
            while width(part) > columns:
                fits = next(count for count in range(len(part), 0, -1) if count == 1 or width(part[:count]) <= columns)
                yield part[:fits]
                part = part[fits:]
            yield part


def wrapped(text, columns):
    """The lines of a paragraph."""
    lines = [""]
    for piece in pieces(text, columns):
        if width(lines[-1] + piece.rstrip(f" {KEPT}")) > columns:
            lines.append("")
        if lines[-1] or piece not in (" ", KEPT):
            lines[-1] += piece
    return [line.rstrip(f" {KEPT}").replace(KEPT, " ") for line in lines]


def least(cells, natural, kept=KEPT):
    """How wide each column of a table is at least; a line ends within code only if `kept` is a space."""
    words = [[width(part) for row in cells for part in PIECE.findall(row[at].replace(KEPT, kept))] for at in range(len(natural))]
    return [min(whole, max([NARROWEST, *parts])) for whole, parts in zip(natural, words)]


def shares(natural, smallest, columns):
    """How wide each column of a table becomes; None: they do not fit. What narrow columns leave goes to the others."""
    free = columns - GAP * (len(natural) - 1)
    if sum(smallest) > free:
        return None
    given = list(smallest)
    while free > sum(given) and (open_ := [at for at in range(len(given)) if given[at] < natural[at]]):
        given[min(open_, key=lambda at: given[at] / natural[at] ** 0.5)] += 1
    return given


def table(head, rows):
    """The lines of a table."""
    cells = [head, *rows]
    natural = [max(width(row[at]) for row in cells) for at in range(len(head))]
    given = shares(natural, natural, WIDEST) or shares(natural, least(cells, natural), WIDTH) or shares(natural, least(cells, natural, " "), WIDTH)
    if not given:
        return blocks(head, rows)
    lines = [[wrapped(cell, given[at]) for at, cell in enumerate(row)] for row in cells]
    apart = any(len(cell) > 1 for row in lines[1:] for cell in row)
    text = []
    for number, row in enumerate(lines):
        for line in range(max(len(cell) for cell in row)):
            text.append((" " * GAP).join(padded(cell[line] if line < len(cell) else "", given[at]) for at, cell in enumerate(row)).rstrip())
        if number == 0:
            text.append((" " * GAP).join("-" * columns for columns in given))
        elif apart and number + 1 < len(lines):
            text.append("")
    return text


def blocks(head, rows):
    """The lines of a table that is too wide: each row begins with its first cell."""
    text = []
    for row in rows:
        text += [""] * bool(text)
        for at, (name, cell) in enumerate(zip(head, row)):
            if cell:
                colon = "" if not name else "：" if width(name[-1]) == 2 else ": "
                first, *more = wrapped(name + colon + cell, WIDTH - CODE)
                indent = " " * 2 * bool(at)
                text += [indent + first, *(indent + " " * 2 + line for line in more)]
    return text


class Page(html.parser.HTMLParser):
    """Reads the HTML of a page."""

    def __init__(self, see, chinese):
        super().__init__()
        self.see = see  # says what stands behind the text of a link
        self.aside = ("（", "）", "，") if chinese else (" (", ")", ", ")  # around that, and in front of it within brackets
        self.lines = []
        self.inline = ""
        self.lists = []  # numbers of the items so far, from the outermost list
        self.marker = ""  # of the item whose first line is still to come
        self.pre = self.code = False
        self.link = None
        self.row = self.rows = None

    def handle_starttag(self, tag, attributes):
        if tag in ("p", "div", "pre", "ul", "ol", "li", "table", *UNDERLINES):
            self.flush()
        if tag in ("ul", "ol"):
            self.apart = not self.lists
            self.lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            self.marker = "- " if self.lists[-1] is None else f"{self.lists[-1]}. "
            self.lists[-1] = self.lists[-1] and self.lists[-1] + 1
        elif tag == "pre":
            self.pre = True
        elif tag == "table":
            self.rows = []
        elif tag == "tr":
            self.row = []
        elif tag == "code" and not self.pre:
            self.inline += "`"
            self.code = True
        elif tag == "em":
            self.inline += "*"
        elif tag == "br":
            self.inline += " "
        elif tag == "a":
            self.link = dict(attributes).get("href", ""), len(self.inline)

    def handle_endtag(self, tag):
        if tag == "pre":
            self.block([" " * CODE + line if line else "" for line in self.inline.rstrip("\n").split("\n")])
            self.pre, self.inline = False, ""
        elif tag in UNDERLINES:
            title = wrapped(self.taken(), WIDTH)
            self.block([*title, UNDERLINES[tag] * max(width(line) for line in title)])
        elif tag in ("p", "div", "li"):
            self.flush()
        elif tag in ("ul", "ol"):
            self.flush()
            self.lists.pop()
        elif tag in ("td", "th"):
            self.row.append(self.taken())
        elif tag == "tr":
            self.rows.append(self.row)
        elif tag == "table":
            self.block(table(self.rows[0], self.rows[1:]))
            self.rows = None
        elif tag == "code" and not self.pre:
            self.inline += "`"
            self.code = False
        elif tag == "em":
            self.inline += "*"
        elif tag == "a":
            target, begin = self.link
            if self.inline[begin:].strip() and (words := self.see(target, self.inline[begin:].strip("`"))):
                left, right, comma = self.aside
                within = len(re.findall("[(（]", self.inline)) > len(re.findall("[)）]", self.inline))
                self.inline += comma + words if within else left + words + right

    def handle_data(self, data):
        self.inline += re.sub(r"\s", KEPT, data) if self.code else data

    def taken(self):
        """The inline text so far. The end of a line of the source is a space; between Chinese characters and behind Chinese punctuation it is nothing."""
        text = re.sub(rf"(?<=[{CHINESE}])\n(?=[{CHINESE}])|(?<=[{MARKS}])\n", "", self.inline)
        self.inline = ""
        return re.sub(r"[ \n\t]+", " ", text).strip(" ")

    def flush(self):
        """Ends the paragraph or the first line of the item."""
        text = self.taken()
        if text:
            marker, self.marker = self.marker, ""
            indent = " " * 2 * len(self.lists[1:]) + " " * len(marker or "  ") * bool(self.lists)
            lines = wrapped(text, WIDTH - len(indent))
            self.block([indent[: len(indent) - len(marker)] + marker + lines[0], *(indent + line for line in lines[1:])], tight=marker and not self.apart)
            self.apart = False

    def block(self, lines, tight=False):
        """Adds the lines, with an empty line in front of them."""
        if self.lines and not tight:
            self.lines.append("")
        self.lines += lines


def as_text(markup, see, chinese=False):
    """The page as text. `see(target, text)` says what follows the text of a link, which may be nothing."""
    page = Page(see, chinese)
    page.feed(markup)
    page.close()
    page.flush()
    return "\n".join(page.lines) + "\n"
