"""Pictures for pages that are read on light and on dark paper: Picture draws in classes, whose colours follow the reader's choice."""

import html

STYLE = """text { font: 11px sans-serif; fill: #1f2328 } .bold { font-weight: bold } .faint { fill: #656d76 }
.frame { fill: none; stroke: #8c959f } .grid { stroke: #d0d7de } .axis { stroke: #57606a } .paper { fill: #fff }
.ours { fill: #0b4f9e; stroke: #0b4f9e } .peer { fill: #e07b00; stroke: #e07b00 } .mark { fill: none; stroke: #1f2328; stroke-width: 2 }
.bar { stroke: none } .line { fill: none; stroke-width: 1.2 } .thick { fill: none; stroke-width: 3.5; stroke-opacity: 0.55 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9198a1 } .grid { stroke: #30363d } .axis { stroke: #9198a1 } .paper { fill: #0d1117 }
.ours { fill: #58a6ff; stroke: #58a6ff } .peer { fill: #f0a34a; stroke: #f0a34a } .mark { stroke: #e6edf3 }
.bar { stroke: none } .line, .thick { fill: none } }"""


class Picture:
    """Shapes one after the other; `kind` names classes of STYLE."""

    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
                      f"<style>{STYLE}</style>", '<rect class="paper" width="100%" height="100%"/>']

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(str(words))}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def box(self, x, y, width, height, kind):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{kind}"/>')

    def curve(self, points, kind):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{places}" class="{kind}"/>')

    def dump(self):
        return "\n".join(self.parts + ["</svg>"]) + "\n"
