# type: ignore
"""Kernel functions with one fault each, for the tests of the front end.

What is wrong stands at the end of the line: what the error says, and after a ~ the text at its caret.
"""
# ruff: noqa
# fmt: off

from tilec import tile

BLOCK = 128
NUMBERS = [1, 2]
HUGE = (128, 1 << 80)
LONG = 10**5000


def unknown_name(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=B.dtype)  # name 'B' is not defined here ~ B.dtype
    return D


def unknown_word(A: tile.View["M", "K"]):
    D = tile.emtpy("M", "K", dtype=A.dtype)  # module tilec.frontend.tile has no attribute 'emtpy' ~ tile.emtpy
    return D


def no_annotation(A: tile.View["M", "K"], B):  # parameter B has no annotation ~ B)
    return A


def other_annotation(A: list):  # parameter A is not annotated as a view ~ list
    return A


def view_with_default(A: tile.View["M", "K"] = 3):  # parameter A is a view: it has no default ~ 3
    return A


def no_such_extent(A: tile.View["M", "K"]):
    D = tile.empty("M", "P", dtype=A.dtype)  # 'P' is no extent of an input ~ "P"
    return D


def bad_symbol(A: tile.View["Max", "K"]):  # bad symbol 'Max': letters but x, digits and _ ~ "Max"
    return A


def bad_dtype(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype="f64")  # unsupported element type f64 ~ "f64"
    return D


def no_return(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)  # a kernel function ends by returning its outputs ~ D =


def returns_input(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    return A  # a kernel returns its outputs, made with tile.empty ~ A  #


def long_range(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for i in range(1025):  # `range(1025)` has more than 1024 turns, each of which would be written out ~ range(1025)
        pass
    return D


def branches(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    if A:  # `A` is a view, which is neither true nor false ~ A:
        pass
    return D


def calls_python(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    print(D)  # a kernel cannot call print ~ print
    return D


def uses_a_list(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    x = NUMBERS  # `NUMBERS` is a list from outside of the kernel ~ NUMBERS
    return D


def wrong_variables(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m in tile.grid(D, step=(128, 128)):  # a grid over 2 dimensions has 2 variables, not 1 ~ m in
        pass
    return D


def wrong_indices(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(128, 64, A.dtype)
        tile.copy(A[m], a)  # a view of 2 dimensions is indexed by 2 offsets, not 1 ~ A[m]
    return D


def negative_index(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(128, 64, A.dtype)
        tile.copy(A[m, -1], a)  # an offset must not be negative: an index has no sign ~ -1]
    return D


def copy_of_nothing(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(128, 64, A.dtype)
        tile.copy(A, a)  # tile.copy goes from a view at offsets to a tile or back, not from a view to a shared tile ~ tile.copy
    return D


def missing_argument(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(128, 64)  # tile.smem needs an element type behind its extents ~ tile.smem
    return D


def unknown_argument(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, steps=(128, 64)):  # unknown argument 'steps' ~ steps
        pass
    return D


def runtime_shape(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(m, 64, A.dtype)  # an extent of a tile must be an integer known at compile time, not a run-time index ~ m, 64
    return D


def rebinds(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        a = tile.smem(128, 64, A.dtype)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            a = tile.smem(128, 64, A.dtype)  # a is assigned outside of this loop: a loop cannot change it ~ a = tile
    return D


def leaves_its_loop(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        acc = tile.acc(128, 128)
    tile.copy(acc, D[m, n])  # acc is set inside of this loop only, and has no value here ~ acc, D
    return D


def mma_of_a_view(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        acc = tile.acc(128, 128)
        tile.mma(acc, A, B)  # argument a must be a shared tile, not a view ~ A, B
    return D


def k_differs(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        a = tile.smem(128, 64, A.dtype)
        b = tile.smem(128, 32, A.dtype)
        acc = tile.acc(128, 128)
        tile.mma(acc, a, b)  # K differs: a is 128x64 (MxK), b is 128x32 (NxK) ~ tile.mma
    return D


def empty_tile(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(128, 0, A.dtype)  # shared tile has shape 128x0: extents must be 1 to 65536 ~ tile.smem
    return D


def value_of_a_statement(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        a = tile.smem(128, 64, A.dtype)
        x = tile.copy(A[m, k], a)  # this gives no value: write it as a statement of its own ~ tile.copy
    return D


def huge_step(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(99999999999999999999999, 64)):  # `99999999999999999999999` is out of range: an integer of a kernel has 63 bits and a sign ~ 99999999999999999999999
        pass
    return D


def huge_global(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=HUGE):  # `HUGE` is out of range: an integer of a kernel has 63 bits and a sign ~ HUGE
        pass
    return D


def power(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    x = 2 ** 63  # `2 ** 63` is out of range: an integer of a kernel has 63 bits and a sign ~ 2 **
    return D


def huge_beyond_printing(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    x = LONG * 10  # `LONG` is out of range: an integer of a kernel has 63 bits and a sign ~ LONG
    return D


def overflows(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    x = 1 + 4611686018427387904 * 2  # `4611686018427387904 * 2` is out of range: an integer of a kernel has 63 bits and a sign ~ 4611686018427387904
    return D


def nested_grid(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        for i, j in tile.grid(D, step=(128, 64)):  # tile.grid is the outermost loop of a kernel ~ tile.grid
            pass
    return D


def divides_by_zero(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    x = 4 // (BLOCK - 128)  # `4 // (BLOCK - 128)`: integer division or modulo by zero ~ 4 //
    return D


def after_äöü(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    ä = "ü"; x = unknown  # name 'unknown' is not defined here ~ unknown
    return D


def complex_parameter(A: tile.View["M", "K"], x: complex):  # parameter x is not annotated as a view ~ complex
    return A


def starred(*A: tile.View["M", "K"]):  # a kernel has no *A: name each of its views ~ A: tile
    return A


def wrong_dim(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(128, 64)):
        for i in tile.range(A, dim=2, step=64):  # there is no dimension 2 in a view of 2 dimensions ~ 2, step
            pass
    return D


def unquoted_symbol(A: tile.View["M", "K"]):
    D = tile.empty(M, "K", dtype=A.dtype)  # name 'M' is not defined here ~ M, "K"
    return D
