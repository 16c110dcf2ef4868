#!/usr/bin/python3
"""The table of lowerings in dgx-lowerings(7), from the rows in lib/lowering/lowerings_*.cc.

usage: lowerings.py [--check]      writes the rows between the page's markers; --check: says whether they are there already

What a lowering becomes is said here, by the name of its function: one that is missing, or that no row uses, is an error.
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
ROW = re.compile(r'\{((?:\s*"[\w ]+")+),\s*&(\w+)\}')
PAGE = SOURCE / "man/dgx-lowerings.7.scd"
BEGIN = "; lowerings.py writes what follows\n"
END = "; until here\n"

# x is self or the input, g the gradient given, y the output given. Steps are written as formulas, in their order.
BECOMES = {
    "alias": "the same access",
    "reshape": "an access in the other shape; a copy where one access cannot say it",
    "as_strided": "an access of the flattened tensor at the sum of offset and index times stride; of a view with gaps or another order refused",
    "transpose_two": "an access with its two dimensions exchanged",
    "transpose": "an access with two dimensions exchanged",
    "permute": "an access with its dimensions in another order",
    "expand": "an access that repeats (for copy: of the source)",
    "select": "an access with one coordinate constant",
    "slice": "an access at step i + start",
    "slice_backward": "an access at (i - start)/step, fill 0",
    "select_backward": "an access at i - index, fill 0",
    "flip": "an access at size-1 - i",
    "split": "an access a part",
    "split_with_sizes": "an access a part",
    "unbind": "an access a part",
    "cat": "a map: selects by _lt_ of the index, 24 parts a map",
    "stack": "a map: selects by _lt_ of the index, 24 parts a map",
    "convert": "a map: f32 or i64; to u8 and bool refused",
    "filled": "a literal",
    "zeros": "the literal 0",
    "ones": "the literal 1",
    "arange": "a map: i step + start; floats: fma(f32 i, step, start)",
    "tril": "select(column le row + diagonal, x, 0) of indices",
    "triu": "select(column ge row + diagonal, x, 0) of indices",
    "roll": "select(i lt shift, x[i + size - shift], x[i - shift]) a dimension",
    "repeat": "a copy; its iteration has each dimension as (repeat, element)",
    "diagonal": "an access with both coordinates the last index",
    "trace": "sum of x[i, i]",
    "diagonal_backward": "select(row + offset eq column, g, 0) of indices",
    "diagonal_scatter": "select(row + offset eq column, source, x) of indices",
    "diag_embed": "select(row + offset eq column, x, 0) of indices",
    "slice_scatter": "select(start le i lt end, source[(i - start)/step], x)",
    "select_scatter": "select(i eq index, source, x), written as a slice of one",
    "as_strided_scatter": "flat positions as digits, the largest stride first: select(start le digit lt start + size, source, x); refused if a stride "
                          "does not divide the next, or a row reaches into another",
    "unfold": "an access at step i + j",
    "unfold_backward": "sum over j of g[(i - j)/step, j], fill 0",
    "eye": "eq of row and column",
    "linspace": "from the nearer end, of n numbers: fma(f32 i, s, start), fma(f32(n-1 - i), -s, end)",
    "embedding": "a map: the table at $indices",
    "embedding_backward": "a chain over the tokens: + g where token eq row (and row ne padding)",
    "index_select": "a map: x at $index",
    "take": "a map: flattened x at $index, negative ones counted from the end",
    "gather": "a map: x at $index",
    "index": "a map: x at up to five $indices, negative ones counted from the end; masks refused",
    "index_put": "a chain over the indices: values (with accumulate: acc + values) where all eq, from x; a mask: select(mask, value, x)",
    "put": "a chain over the flattened index: source (accumulated: acc + source) where eq, from flattened x",
    "index_add": "a chain over index: acc + source (with alpha: fma(alpha, source, acc)) where eq, from x",
    "index_copy": "a chain over index: source where eq, from x",
    "index_fill": "a chain over index: the value where eq, from x",
    "scatter": "a chain along the dimension: the source where index eq, from x; reduce add: acc + source",
    "scatter_add": "a chain along the dimension: acc + source where index eq, from x",
    "scatter_reduce": "sum with self: as scatter\\_add; others refused",
    "add": "x + other; with alpha fma(alpha, other, x); adding 0: an access",
    "sub": "x - other; with alpha fma(-alpha, other, x)",
    "rsub": "other - x; with alpha fma(-alpha, x, other)",
    "mul": "x other; by 1: an access",
    "div": "x / other; with a rounding mode as floor\\_divide",
    "rounded_div": "floor(x / other), less 1 where fma(neg that, other, x) other is below 0; trunc: trunc(x / other); integers idiv",
    "fmod": "r = fma(neg trunc(x / y), y, x); where r x is below 0, r + |y| in the sign of x; integers imod of the sizes in the sign of x",
    "remainder": "as fmod, then + y where not 0 and of the other sign than y; integers imod",
    "reciprocal": "1 / x",
    "neg": "the step of that name",
    "abs": "the step of that name",
    "exp": "the step of that name",
    "expm1": "the step of that name",
    "log": "the step of that name",
    "log1p": "the step of that name",
    "sqrt": "the step of that name",
    "rsqrt": "1 / sqrt x",
    "sin": "the step of that name",
    "cos": "the step of that name",
    "erf": "the step of that name",
    "floor": "the step of that name",
    "trunc": "the step of that name",
    "round": "rint x; to decimals refused",
    "square": "x x",
    "exp2": "exp(x log 2)",
    "log2": "log x / log 2",
    "log10": "log x / log 10",
    "erfc": "1 - erf x",
    "tan": "sin x / cos x",
    "sinh": "e = expm1 x; for |x| below 1 0.5 (e + e/(e + 1)), else 0.5 exp x - 0.5 exp(neg x)",
    "cosh": "0.5 exp x + 0.5 exp(neg x)",
    "asinh": "log1p(|x| + x x / (1 + sqrt(x x + 1))) in the sign of x",
    "acosh": "t = x - 1: log1p(t + sqrt(t (t + 2)))",
    "atanh": "0.5 (log1p x - log1p(neg x))",
    "ceil": "neg floor neg x",
    "frac": "x - trunc x",
    "logit": "z = x, held between eps and 1 - eps if given: log(z / (1 - z))",
    "logit_backward": "g / (x (1 - x)); with eps 0 outside",
    "hypot": "sqrt(fma(x, x, y y))",
    "xlogy": "select(x eq 0 and y eq y, 0, x log y)",
    "logaddexp": "max x y + log1p(exp(neg |x - y|)), the gap 0 where x eq y",
    "deg2rad": "x (pi / 180)",
    "rad2deg": "x (180 / pi)",
    "sinc": "select(x eq 0, 1, sin(pi x) / (pi x))",
    "pow": "whole c of at most 64 in size: products, the binary digits of the size after the first, from the highest, each a square and for 1 a product with x; "
           "1 / that for c below 0; 1/2: sqrt x; -1/2: 1/sqrt x; other numbers: exp(c log x), for whole c of the size, neg for x below 0 and odd c, for infinite c of the size, 1 where that is 1; "
           "a number to a tensor: exp(other log c); tensors to tensors, f32: exp(y log x), 1 where y is 0, for whole y of the size of x, neg for x below 0 and odd y",
    "addcmul": "fma(tensor1, tensor2, x); with value fma(value, tensor1 tensor2, x)",
    "addcdiv": "fma(value, tensor1 / tensor2, x)",
    "lerp": "fma(weight, end - x, x)",
    "maximum": "max x other",
    "minimum": "min x other",
    "clamp": "min(max(x, low), high)",
    "sign": "f32(x gt 0) - f32(x lt 0)",
    "eq": "that step of x and other",
    "ne": "that step of x and other",
    "lt": "that step of x and other",
    "le": "that step of x and other",
    "gt": "that step of x and other",
    "ge": "that step of x and other",
    "logical_and": "and of x ne 0, other ne 0",
    "logical_or": "or of x ne 0, other ne 0",
    "logical_not": "not of x ne 0",
    "logical_xor": "ne of x ne 0, other ne 0",
    "bitwise_and": "of bool as logical\\_and; others refused",
    "bitwise_or": "of bool as logical\\_or; others refused",
    "bitwise_xor": "of bool as logical\\_xor; others refused",
    "bitwise_not": "of bool as logical\\_not; others refused",
    "signbit": "x, or 1 / x of zeros, lt 0",
    "fmax": "select(y ne y, x, max x y)",
    "fmin": "select(y ne y, x, min x y)",
    "copysign": "|x|, neg where other or, of zeros, 1 / other is below 0",
    "isnan": "x ne x",
    "isinf": "|x| eq inf",
    "isfinite": "|x| lt inf",
    "heaviside": "select(x eq 0, values, f32(x gt 0)); NaN: x",
    "where": "select(condition ne 0, x, other)",
    "masked_fill": "select(mask ne 0, value, x)",
    "relu": "max 0 x",
    "threshold_backward": "select(x le threshold, 0, g)",
    "gelu": "(0.5 x) (1 + erf(x sqrt(1/2))); tanh form: (0.5 x) (1 + t), t = tanh(sqrt(2/pi) (x fma(x x, 0.044715, 1)))",
    "gelu_backward": "g fma(x, exp(-0.5 (x x)) (1/sqrt(2 pi)), 0.5 (1 + erf(x sqrt(1/2)))); tanh form: "
                     "g fma(0.5, 1 + t, (0.5 x) ((1 - t t) (sqrt(2/pi) fma(x x, 3 0.044715, 1))))",
    "tanh": "the step of that name",
    "tanh_backward": "g (1 - y y)",
    "sigmoid": "1 / (1 + exp(neg x))",
    "sigmoid_backward": "g ((1 - y) y)",
    "silu": "x / (1 + exp(neg x))",
    "silu_backward": "g (s fma(x, 1 - s, 1)), s = sigmoid x",
    "leaky_relu": "select(x gt 0, x, x slope)",
    "leaky_relu_backward": "select(x gt 0, g, g slope)",
    "elu": "select(x gt 0, x scale, (alpha scale) expm1(x input\\_scale))",
    "elu_backward": "select(x gt 0, g scale, g (exp(x input\\_scale) c)), c = alpha scale input\\_scale; "
                    "of the result: g ((y + alpha scale) input\\_scale)",
    "softplus": "select(x beta gt threshold, x, log1p(exp(x beta)) / beta)",
    "softplus_backward": "select(x beta gt threshold, g, g sigmoid(x beta))",
    "hardtanh": "min(max(x, low), high)",
    "hardtanh_backward": "select(x le low or x ge high, 0, g)",
    "threshold": "select(x le threshold, value, x)",
    "celu": "select(x gt 0, x, alpha expm1(x (1/alpha)))",
    "hardsigmoid": "min(max(x + 3, 0), 6) / 6",
    "hardsigmoid_backward": "select(x gt -3 and x lt 3, g / 6, 0)",
    "hardswish": "x min(max(x + 3, 0), 6) / 6",
    "hardswish_backward": "select(x le -3, 0, select(x lt 3, g (x/3 + 0.5), g))",
    "mish": "x tanh(log1p(exp x))",
    "mish_backward": "t = tanh(log1p(exp x)): g fma(x sigmoid x, 1 - t t, t)",
    "hardshrink": "select(|x| le l, 0, x)",
    "shrink_backward": "select(|x| le l, 0, g)",
    "softshrink": "select(|x| le l, 0, select(x gt 0, x - l, x + l))",
    "log_sigmoid": "min x 0 - log1p(exp(neg |x|))",
    "log_sigmoid_backward": "g / (1 + exp x)",
    "prelu": "select(x gt 0, x, weight x)",
    "prelu_backward": "select(x gt 0, g, weight g); weight: select(x gt 0, 0, x g)",
    "glu": "a / (1 + exp(neg b)), a and b the halves",
    "glu_backward": "select by index: g s for a, (g a) ((1 - s) s) for b, s = sigmoid b",
    "mm": "dot",
    "bmm": "dot",
    "baddbmm": "dot, then + x; beta and alpha as addmm",
    "addbmm": "dot over batch and inner dimension, then + x; beta and alpha as addmm",
    "mv": "dot",
    "addmv": "dot, then + x; beta and alpha as addmm",
    "inner_product": "dot",
    "addr": "vec1 vec2, then + x; beta and alpha as addmm",
    "trilinear": "sum of (i1 i2) i3",
    "addmm": "dot, then + bias (with alpha: fma(product, alpha, beta bias))",
    "linear": "dot with the weight transposed, then + bias",
    "convolution": "dot over kernel positions, then channels; transposed: the input gradient's form; then + bias",
    "convolution_backward": "input: dot over kernel positions, then channels, at (i + padding - dilation k)/stride, fill 0; "
                            "weight: dot over batch, then output positions; bias: sum of g over positions, dot with one over the batch",
    "max_pool": "max over the window, padding -inf; argmax, then a map: the position's number in its plane",
    "max_pool_backward": "sum over the windows that hold a position, at exact divisions: select(indices eq position, g, 0); "
                         "windows that do not overlap: a map",
    "adaptive_max_pool": "as for windows of floor(i in/out) up to ceil((i + 1) in/out), by select",
    "adaptive_max_pool_backward": "as for windows",
    "max_unpool": "chain over the inputs, from 0: x where its index eq the position",
    "avg_pool": "sum over the window, padding 0, then / count (of the indices, where outputs differ in it)",
    "avg_pool_backward": "g / count, then a sum over the windows that hold a position; windows that do not overlap: a map",
    "adaptive_avg_pool": "as for windows where out divides in; else a sum along each dimension by select, then / count",
    "adaptive_avg_pool_backward": "as for windows where out divides in; else g / count, then a sum along each dimension",
    "constant_pad": "an access at i - before, with the value as fill",
    "reflection_pad": "maps of positions: n - abs(abs(i - before) - n), n = size-1; a map that reads with $",
    "reflection_pad_backward": "along each dimension (g at the position + its copy before) + its copy after, by selects",
    "replication_pad": "maps of positions: min(max(i - before, 0), size-1); a map that reads with $",
    "replication_pad_backward": "along each dimension a sum over the positions that may be copies, by select",
    "pixel_shuffle": "a copy, read in another order",
    "pixel_unshuffle": "a copy, read in another order",
    "channel_shuffle": "a copy, read in another order",
    "im2col": "a copy, read at stride o + dilation k - padding, fill 0",
    "col2im": "sum over kernel positions, at (i + padding - dilation k)/stride, fill 0",
    "upsample_nearest": "an access at (a i + b)//c, where such numbers give libtorch's positions; else a map of positions "
                        "(min(i64(f32(i) scale), in-1), f32(i) + 1/2 for exact), read with $",
    "upsample_nearest_backward": "sum over the outputs that may read a position: select(position eq i, g, 0)",
    "upsample_linear": "maps of positions and weights [out, 2] in binary32; then along each dimension a dot over the two",
    "upsample_linear_backward": "along each dimension a sum over the outputs that may read a position, and their two: "
                                "select(position eq i, g weight, 0)",
    "sum": "sum over trailing dimensions, then dot with one over others; integers: sum",
    "mean": "as sum, then / count",
    "amax": "max",
    "amin": "max m of -x; 0 - m",
    "greatest": "max, argmax; of two tensors max x other",
    "least": "max m of -x: 0 - m; argmax of -x; of two tensors min x other",
    "argmin": "argmax of -x",
    "var": "mean as sum / n; d = x - mean; sum of d d / (n - correction)",
    "std_deviation": "sqrt of var",
    "var_mean": "var and its mean",
    "std_mean": "sqrt of var, and its mean",
    "vector_norm": "order 2: sqrt of the sum of x x; 1: sum of abs x; 0: sum of f32(x ne 0); inf, -inf: max, min of abs x; others refused",
    "logsumexp": "max m; c = select(abs m eq inf, 0, m); log(sum of exp(x - c)) + c",
    "prod": "chain: acc x",
    "any": "sum of (x ne 0); ne 0",
    "all": "sum of (x ne 0); eq n",
    "count_nonzero": "sum of (x ne 0)",
    "nan_to_num": "select(x ne x, nan, select(x eq inf, greatest, select(x eq -inf, least, x)))",
    "cumsum": "chain along the dimension: acc + x[k] where k le i",
    "cumprod": "chain along the dimension: acc x[k] where k le i",
    "sort": "rank: sum of (x[k] lt x[i] or (eq and k lt i)), gt descending; indices: chain, k where rank eq i; x at $index; at most 1,024",
    "topk": "as sort, the first k",
    "kthvalue": "as sort, one",
    "median": "as sort, number (n - 1)/2",
    "argmax": "argmax",
    "softmax": "max m; e = exp(x - m); sum s; r = 1/s; e r",
    "safe_softmax": "max m; e = exp(x - m); sum s; r = 1/s; select(m eq -inf, 0, e r)",
    "softmax_backward": "g y; its sum S; (g - S) y",
    "log_softmax": "max m; e = exp(x - m); sum s; l = log s; (x - m) - l",
    "log_softmax_backward": "sum S of g; g - exp(y) S",
    "layer_norm": "sum / n: mean; sum of (x - mean)^2 / n: v; rstd = 1/sqrt(v + eps); fma((x - mean) rstd, weight, bias)",
    "layer_norm_backward": "h = (x - mean) rstd; q = g weight; sums A of q and B of q h; ((q - A/n) - h (B/n)) rstd; "
                           "weight: g h, bias: g, summed over outer dimensions",
    "mse_loss": "d d, d = x - target; mean: sum, / count",
    "mse_loss_backward": "(d + d) (g / count)",
    "smooth_l1_loss": "z = |x - target|: select(z lt beta, 0.5 z z / beta, z - 0.5 beta); mean as mse\\_loss",
    "smooth_l1_loss_backward": "(min(max(d, neg beta), beta) / beta) (g / count); with beta 0 the first factor is 1 for d above 0, else -1",
    "huber_loss": "z = |x - target|: select(z le delta, 0.5 z z, delta (z - 0.5 delta)); mean as mse\\_loss",
    "huber_loss_backward": "min(max(d, neg delta), delta) (g / count)",
    "soft_margin_loss": "log1p(exp(neg(target x))); mean as mse\\_loss",
    "soft_margin_loss_backward": "(neg target / (1 + exp(target x))) (g / count)",
    "binary_cross_entropy": "(t - 1) max(log1p(neg x), -100) - t max(log x, -100), times weight; mean as mse\\_loss",
    "binary_cross_entropy_backward": "((x - t) / max((1 - x) x, 1e-12)) weight (g / count)",
    "bce_with_logits": "fma(1 - t, x, fma(pos\\_weight - 1, t, 1) (log1p(exp(neg |x|)) + max(neg x, 0))), times weight; mean as mse\\_loss",
    "nll_loss": "map neg x[target] weight[target], 0 where ignored; its sum; mean: / sum of weights",
    "nll_loss_backward": "map select(target eq i, (neg weight[target]) g / sum of weights, 0)",
    "batch_norm": "a channel: sum / n: mean; sum of (x - mean)^2 / n: v; s = 1/sqrt(v + eps); fma((x - mean) s, weight, bias); running: fma(m, new, (1 - m) old), variance / (n - 1); evaluation: mean and v the running ones",
    "batch_norm_backward": "sums A of g, B of g (x - mean); ((g - A/n) - (x - mean) ((B/n) (s s))) (weight s); weight: B s, bias: A; by running statistics: g (weight s)",
    "group_norm": "as batch\\_norm in training, a group of channels of a sample",
    "group_norm_backward": "q = g weight; sums A of q, B of q (x - mean); ((q - A/n) - (x - mean) ((B/n) (s s))) s; weight: sums of g ((x - mean) s), bias: of g",
    "rms_norm": "s = 1/sqrt(sum of x x / n + eps); (x s) weight",
    "rms_norm_backward": "q = g weight; sum B of q x; (q - x ((B/n) (s s))) s; weight: sums of g (x s)",
    "weight_norm": "n = sqrt of the sum of v v; v (g / n)",
    "weight_norm_backward": "sum S of d v: (d - v (S / (n n))) (g / n); for g: S / n",
    "bernoulli": "f32(u lt p), u a random input",
    "rand": "a random input",
    "uniform": "fma(u, to - from, from), u a random input",
    "randn": "sqrt(-2 log(u + 2^-24)) cos(0x1.921fb6p+2 v), u and v random inputs",
    "normal": "fma(that of randn, std, mean)",
    "randint": "i64(u (high - low)) + low, at most 2^24 numbers",
    "exponential": "neg log(1 - u) / rate",
    "rrelu": "select(x gt 0, x, x slope), the slope fma(u, upper - lower, lower), in evaluation (lower + upper)/2",
    "rrelu_backward": "g slope; evaluation: select(x gt 0, g, g (lower + upper)/2)",
    "native_dropout": "mask u lt 1 - p; select(mask, x (1/(1 - p)), 0)",
    "native_dropout_backward": "select(mask, g scale, 0)",
}


def rows():
    """(ATen names, what they become) in this script's order, names that become the same together."""
    files = [ROW.findall(path.read_text()) for path in (SOURCE / "lib/lowering").glob("lowerings_*.cc")]
    functions = {function for rows in files for _, function in rows}
    missing, unused = functions - set(BECOMES), set(BECOMES) - functions
    if missing or unused:
        sys.exit(f"lowerings.py: no words for {sorted(missing)}, no row uses {sorted(unused)}")
    files.sort(key=lambda rows: list(BECOMES).index(rows[0][1]))
    names = {words: [] for words in BECOMES.values()}
    for ops, function in (row for rows in files for row in rows):
        names[BECOMES[function]] += ops.replace('"', "").split()
    return [(together, words) for words, together in names.items()]


def escaped(name):
    return name.replace("_", "\\_")


def table():
    lines = [f"*{', '.join(escaped(name) for name in names)}*: {words}" for names, words in rows()]
    return "\n" + "++\n".join(lines) + "\n\n"


def main():
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"lowerings.py: {PAGE.name} has not both markers")
    before, rest = text.split(BEGIN, 1)
    wanted = before + BEGIN + table() + END + rest.split(END, 1)[1]
    if sys.argv[1:] == ["--check"]:
        if text != wanted:
            sys.exit(f"lowerings.py: {PAGE.name} is not what the rows say: run man/lowerings.py")
        print(f"{sum(len(names) for names, _ in rows())} lowerings are as in the table")
    else:
        PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
