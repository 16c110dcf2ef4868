#!/usr/bin/python3
"""Writes PNG and JPEG files, good and bad, with nothing but the standard library: make_images.py KIND FILE …

The JPEG files have blocks of one value each, which every decoder makes exactly: of the DCT's coefficients only the means are there.
"""

import struct
import sys
import zlib


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(rows, width, colour=0, bits=8, extra=b"", height=None, size=None, interlaced=0):
    header = struct.pack(">IIBBBBB", *(size or (width, height or len(rows))), bits, colour, 0, 0, interlaced)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def interlaced(rows):
    """Grey pixels in Adam7's order: seven small images, one after the other."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    lines = [list(row)[x::across] for x, y, across, down in passes for row in rows[y::down]]
    return png([line for line in lines if line], 0, size=(len(rows[0]), len(rows)), interlaced=1)


def segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


class Bits:
    def __init__(self):
        self.text = ""

    def put(self, value, width):
        self.text += format(value, f"0{width}b") if width else ""

    def done(self):
        padded = self.text + "1" * (-len(self.text) % 8)
        data = int(padded, 2).to_bytes(len(padded) // 8, "big")
        return data.replace(b"\xff", b"\xff\0")


def put_mean(bits, difference):
    """A mean's difference from the one before: its size in four bits, then as many bits."""
    size = abs(difference).bit_length()
    bits.put(size, 4)
    bits.put(difference if difference > 0 else difference + (1 << size) - 1, size)


def jpeg(planes, across, app=b"", progressive=False):
    """Each plane is the values of its blocks, `across` of them in a row, 8 by 8 pixels each."""
    count, down = len(planes), len(planes[0]) // across
    head = b"\xff\xd8" + app + segment(0xDB, b"\0" + b"\x08" * 64)
    frame = struct.pack(">BHHB", 8, 8 * down, 8 * across, count) + b"".join(bytes([i + 1, 0x11, 0]) for i in range(count))
    head += segment(0xC2 if progressive else 0xC0, frame)
    head += segment(0xC4, b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12)))
    if not progressive:
        head += segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0")
    head += segment(0xDA, bytes([count]) + b"".join(bytes([i + 1, 0]) for i in range(count)) + bytes([0, 0 if progressive else 63, 0]))
    bits, before = Bits(), [0] * count
    for values in zip(*planes):
        for i, value in enumerate(values):
            put_mean(bits, value - 128 - before[i])
            before[i] = value - 128
            if not progressive:
                bits.put(0, 1)  # the block ends
    return head + bits.done() + b"\xff\xd9"


def exif(orientation, order="<"):
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    tiff = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, 1) + entry + bytes(4)
    return segment(0xE1, b"Exif\0\0" + tiff)


GREY = [range(10 * y, 10 * y + 4) for y in range(3)]
RGB = [[3 * x + c + 50 * y for x in range(4) for c in range(3)] for y in range(3)]
KINDS = {
    "grey": png(GREY, 4),
    "grey2": png([[255 - v for v in row] for row in GREY], 4),
    "rgb": png(RGB, 4, 2),
    "palette": png([[0, 1, 2, 3]] * 3, 4, 3, extra=chunk(b"PLTE", bytes(range(100, 112)))),
    "interlaced": interlaced(GREY),
    "texts": png(GREY, 4, extra=20 * chunk(b"zTXt", b"bomb\0\0" + zlib.compress(bytes(8_000_000)))),
    "animated": png(GREY, 4, extra=chunk(b"acTL", struct.pack(">II", 2, 0))),
    "critical": png(GREY, 4, extra=chunk(b"ABCD", b"")),
    "late": png(GREY[:2], 4, height=3),
    "bits": png([[0b10100000], [0b01010000], [0b11110000]], 4, bits=1),
    "wide": png([[*row, 0] for row in GREY], 5),
    "deep": png([[0] * 8] * 3, 4, bits=16),
    "rgba": png([[0] * 16] * 3, 4, 6),
    "transparent": png(GREY, 4, extra=chunk(b"tRNS", b"\0\0")),
    "bomb": png(GREY, 60000, height=60000),
    "large": png(GREY, 8000, height=8000),  # the limit would allow it
    "side": png(GREY, 1 << 20, height=1),
    "jpeg": jpeg([[0, 255, 77, 128]], 2),
    "jpeg2": jpeg([[1, 2, 3, 4]], 2),
    "colour": jpeg([[50, 100, 150, 200], [128] * 4, [128] * 4], 2),
    "progressive": jpeg([[0, 255, 77, 128]], 2, progressive=True),
    "cmyk": jpeg([[9] * 4] * 4, 2, app=segment(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, 0))),
    "upright": jpeg([[0, 255, 77, 128]], 2, app=exif(1)),
    "jpeg-bomb": jpeg([[0]], 1).replace(struct.pack(">HH", 8, 8), struct.pack(">HH", 65500, 65500), 1),
    "jpeg-large": jpeg([[0]], 1).replace(struct.pack(">HH", 8, 8), struct.pack(">HH", 8000, 8000), 1),
    "turned": jpeg([[0, 255, 77, 128]], 2, app=exif(6)),
    "turned-big": jpeg([[0, 255, 77, 128]], 2, app=exif(8, ">")),
}
KINDS["cut-png"] = KINDS["grey"][:-20]
KINDS["broken-png"] = KINDS["grey"].replace(b"IDAT", b"IDAU", 1)
KINDS["cut-jpeg"] = KINDS["jpeg"][:-3]
KINDS["short-jpeg"] = KINDS["jpeg"][:30]
KINDS["gif"] = b"GIF89a"

if __name__ == "__main__":
    for kind, path in zip(sys.argv[1::2], sys.argv[2::2]):
        with open(path, "wb") as out:
            out.write(KINDS[kind])
