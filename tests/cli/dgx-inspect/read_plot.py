"""A plot as an XML parser reads it: ticks, points and words. read_plot.py PLOT.svg"""

import sys
import xml.etree.ElementTree

SPACE = "{http://www.w3.org/2000/svg}"


def points_of(shape):
    return [tuple(map(float, point.split(","))) for point in shape.get("points").split()]


def main():
    root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
    width, height = float(root.get("width")), float(root.get("height"))
    assert root.tag == SPACE + "svg" and root.get("viewBox") == f"0 0 {width:.0f} {height:.0f}"
    style = root.find(SPACE + "style").text
    print("title:", root.find(SPACE + "title").text, "| follows dark:", "prefers-color-scheme: dark" in style)
    words = [text.text for text in root.findall(SPACE + "text")]
    for anchor, axis in (("end", "losses"), ("middle", "steps")):
        ticks = [text for text in root.findall(SPACE + "text") if text.get("text-anchor") == anchor]
        numbers = [(float(tick.text), float(tick.get("y" if axis == "losses" else "x"))) for tick in ticks if tick.text[0].isdigit()]
        places = [place for _, place in sorted(numbers)]
        assert len(numbers) > 2 and places == sorted(places, reverse=axis == "losses"), f"{axis}: ticks {numbers}"
        print(f"{axis}:", *(tick.text for tick in ticks if tick.text[0].isdigit()))
    print("words:", *(word for word in words if not word[0].isdigit()), sep="\n  ")
    used = set()
    for shape in root.iter():
        used |= set(shape.get("class", "").split())
        if shape.get("points"):
            points = points_of(shape)
            assert all(0 <= x <= width and 0 <= y <= height for x, y in points), f"{shape.get('class')}: a point is outside"
            print(f"{shape.get('class')}: {len(points)} points")
        if shape.tag == SPACE + "circle":
            print(f"{shape.get('class')}: {shape.find(SPACE + 'title').text}")
    assert all(f".{name} " in style for name in used), f"a class has no style: {used}"


if __name__ == "__main__":
    main()
