"""What a story's page must keep, read by Python's own parser: tags that match, headings in order, pictures with words, colours that can be told apart, and
nothing that loads or runs."""

import html.parser
import re

VOID = {"meta"}
# All that a page may be made of.
TAGS = {"html", "head", "meta", "title", "style", "body", "main", "section", "h1", "h2", "h3", "p", "span", "div", "ol", "li", "table", "caption", "thead",
        "tbody", "tr", "th", "td", "pre", "code", "figure", "figcaption", "svg", "desc", "line", "text", "polyline", "rect"}
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "style", "scope", "id", "role", "data-label", "aria-labelledby", "viewbox", "x", "y", "x1", "y1",
              "x2", "y2", "width", "height", "points", "text-anchor"}
TEXTS = ("ink", "muted", "good", "bad", "warn", "accent")
GROUNDS = ("paper", "card")
LEAST_CONTRAST = 4.5


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, dict(attributes), parent, []

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def all(self, *tags):
        for child in self.children:
            if isinstance(child, Element):
                if child.tag in tags:
                    yield child
                yield from child.all(*tags)


class Reader(html.parser.HTMLParser):
    """A page as a tree; problems are what a browser would have to guess."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root, self.problems = Element("", [], None), []
        self.here = self.root
        self.feed(text)
        self.close()
        if self.here is not self.root:
            self.problems.append(f"<{self.here.tag}> is never closed")

    def handle_starttag(self, tag, attributes):
        element = Element(tag, attributes, self.here)
        self.here.children.append(element)
        self.problems += [f"<{tag}> has no place on a page"] if tag not in TAGS else []
        self.problems += [f"<{tag} {name}> has no place on a page" for name, _ in attributes if name not in ATTRIBUTES]
        if tag not in VOID:
            self.here = element

    def handle_endtag(self, tag):
        if tag != self.here.tag:
            self.problems.append(f"</{tag}> where <{self.here.tag}> is open")
        else:
            self.here = self.here.parent

    def handle_data(self, data):
        self.here.children.append(data)


def luminance(colour):
    def linear(value):
        value /= 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i:i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a, b):
    """The ratio of WCAG 2: (L1 + 0.05) / (L2 + 0.05)."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def schemes(style):
    """The variables of each colour scheme: light, dark and print, each on top of the light one."""
    blocks = re.findall(r"(?:@media ([^{]+)\{\s*)?:root \{([^}]*)\}", style)
    found, light = {}, {}
    for media, body in blocks:
        own = dict(re.findall(r"--(\w+):\s*(#[0-9a-f]{6})", body))
        light = light or own
        found[media.strip() or "light"] = {**light, **own}
    return found


def check_colours(style):
    found = schemes(style)
    if set(found) != {"light", "(prefers-color-scheme: dark)", "print"}:
        yield f"the colour schemes are {sorted(found)}"
    for name, colours in found.items():
        yield from (f"{name}: --{used} is used and not given" for used in set(re.findall(r"var\(--(\w+)\)", style)) - set(colours))
        for text in TEXTS:
            for ground in GROUNDS:
                ratio = contrast(colours[text], colours[ground])
                if ratio < LEAST_CONTRAST:
                    yield f"{name}: --{text} on --{ground} has a contrast of {ratio:.2f}"


def check_headings(root):
    levels = [int(heading.tag[1]) for heading in root.all("h1", "h2", "h3")]
    if levels[:1] != [1] or levels.count(1) != 1:
        yield f"the headings begin {levels[:3]}, and {levels.count(1)} are h1"
    yield from (f"h{after} follows h{before}" for before, after in zip(levels, levels[1:]) if after > before + 1)


def check_pictures(root):
    ids = {element.attributes["id"] for element in root.all(*TAGS) if "id" in element.attributes}
    for picture in root.all("svg"):
        kinds = [child.tag for child in picture.children if isinstance(child, Element)][:2]
        if picture.attributes.get("role") != "img" or kinds != ["title", "desc"]:
            yield f"a picture begins with {kinds}, not with title and desc"
        if not set(picture.attributes.get("aria-labelledby", "none").split()) <= ids:
            yield "a picture is labelled by what is not there"
        if not all(child.text().strip() for child in picture.all("title", "desc")):
            yield "a picture says nothing to those who cannot see it"


def check_tables(root):
    for table in root.all("table"):
        if not any(table.all("caption")) or not all(cell.attributes.get("scope") == "col" for cell in table.all("th")):
            yield "a table has no caption, or a head without scope"


def problems_of(text):
    """(tree, problems) of a page."""
    reader = Reader(text)
    problems = list(reader.problems)
    style = "".join(element.text() for element in reader.root.all("style"))
    if re.search(r"url\(|@import|expression", style):
        problems.append("the style loads something")
    policy = [e.attributes.get("content", "") for e in reader.root.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy"]
    if len(policy) != 1 or not policy[0].startswith("default-src 'none'"):
        problems.append("the page does not forbid to load anything")
    for check in (check_headings, check_pictures, check_tables):
        problems += check(reader.root)
    return reader.root, problems + list(check_colours(style))
