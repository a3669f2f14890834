"""PyTorch and Triton beside the CUDA backend: the same shapes, one JSON file.

    python3 peers.py [--json FILE] [--runs N] [--shapes a,b,...]

Triton kernels of the kind that tutorials show: a blocked product with masks and strides, autotuned over tiles, warps and
stages; dW split over T with atomic additions or with partial sums that torch adds up; a weighted sum with a two-stage
backward. PyTorch: torch.mm, and torch.addmm for dW that adds. Sustained, as dxdw_bench_cuda --sustained: a sample is a
train of calls from Python over rotating operands, 60 ms long, and the median over N samples of the time for one call is
told; what Python takes for a call is hidden where the kernel takes longer. Needs torch and triton; no part of the
library.
"""

import argparse
import json
import statistics

import torch
import triton
import triton.language as tl

SHAPES = {
    "mlp": (8192, 4096, 14336),
    "qkv": (8192, 4096, 4096),
    "square": (8192, 8192, 8192),
    "starved1024": (32768, 1024, 1024),
    "starved512": (65536, 512, 512),
    "tiny256": (65536, 256, 256),
    "lora64": (16384, 4096, 64),
    "lora16": (16384, 4096, 16),
    "ragged": (8191, 4095, 4097),
    "batch512": (512, 4096, 4096),
    "logits": (4096, 4096, 32000),
}


def tiles(split):
    found = []
    for m, n, k, warps, stages in ((128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 64, 64, 4, 4), (64, 64, 64, 4, 4)):
        for parts in split:
            found.append(triton.Config({"M_TILE": m, "N_TILE": n, "K_TILE": k, "SPLIT": parts}, num_warps=warps,
                                       num_stages=stages))
    return found


@triton.jit
def product_body(a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_m, c_n, part, SPLIT: tl.constexpr, ATOMIC: tl.constexpr,
                 M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    """c = a . b over slice `part` of k: stored, or added atomically."""
    tiles_n = tl.cdiv(n, N_TILE)
    tile = tl.program_id(0)
    band = 8 * tiles_n
    first = tile // band * 8
    rows = min(tl.cdiv(m, M_TILE) - first, 8)
    row = (first + tile % band % rows) * M_TILE + tl.arange(0, M_TILE)
    col = tile % band // rows * N_TILE + tl.arange(0, N_TILE)
    chunk = tl.cdiv(k, SPLIT)
    start = part * chunk
    end = min(k, start + chunk)
    total = tl.zeros((M_TILE, N_TILE), tl.float32)
    for at in range(start, end, K_TILE):
        depth = at + tl.arange(0, K_TILE)
        left = tl.load(a + row[:, None] * a_m + depth[None, :] * a_k, (row[:, None] < m) & (depth[None, :] < end), 0.0)
        right = tl.load(b + depth[:, None] * b_k + col[None, :] * b_n, (depth[:, None] < end) & (col[None, :] < n), 0.0)
        total = tl.dot(left, right, total)
    to = c + row[:, None] * c_m + col[None, :] * c_n
    inside = (row[:, None] < m) & (col[None, :] < n)
    if ATOMIC:
        tl.atomic_add(to, total, inside, sem="relaxed")
    else:
        tl.store(to, total.to(c.dtype.element_ty), inside)


@triton.autotune(tiles((1,)), key=["m", "n", "k"])
@triton.jit
def product(a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_m, c_n, SPLIT: tl.constexpr, M_TILE: tl.constexpr,
            N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    product_body(a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_m, c_n, 0, SPLIT, False, M_TILE, N_TILE, K_TILE)


@triton.autotune(tiles((1, 4, 16, 32)), key=["m", "n", "k"], restore_value=["c"])
@triton.jit
def product_atomic(a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_m, c_n, SPLIT: tl.constexpr, M_TILE: tl.constexpr,
                   N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    product_body(a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_m, c_n, tl.program_id(1), SPLIT, True, M_TILE, N_TILE, K_TILE)


@triton.autotune(tiles((1,)), key=["m", "n", "k", "SPLIT"])
@triton.jit
def product_partial(a, b, c, m, n, k, a_m, a_k, b_k, b_n, c_part, c_m, c_n, PARTS: tl.constexpr, SPLIT: tl.constexpr,
                    M_TILE: tl.constexpr, N_TILE: tl.constexpr, K_TILE: tl.constexpr):
    part = tl.program_id(1)
    product_body(a, b, c + part * c_part, m, n, k, a_m, a_k, b_k, b_n, c_m, c_n, part, PARTS, False, M_TILE, N_TILE,
                 K_TILE)


def grid_of(m, n):
    return lambda meta: (triton.cdiv(m, meta["M_TILE"]) * triton.cdiv(n, meta["N_TILE"]), meta["SPLIT"])


def triton_product(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    product[grid_of(m, n)](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())


def triton_dw_atomic(x, dy, dw):
    a = x.t()
    (m, k), n = a.shape, dy.shape[1]
    product_atomic[grid_of(m, n)](a, dy, dw, m, n, k, *a.stride(), *dy.stride(), *dw.stride())


def triton_dw_deterministic(x, dy, dw, partials):
    a = x.t()
    (m, k), n, parts = a.shape, dy.shape[1], partials.shape[0]
    grid = lambda meta: (triton.cdiv(m, meta["M_TILE"]) * triton.cdiv(n, meta["N_TILE"]), parts)
    product_partial[grid](a, dy, partials, m, n, k, *a.stride(), *dy.stride(), *partials.stride(), PARTS=parts)
    dw += partials.sum(0) if parts > 1 else partials[0]


@triton.jit
def weighted_forward(x, w, y, rows, features, R: tl.constexpr, D: tl.constexpr):
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, features, D):
        d = start + tl.arange(0, D)
        values = tl.load(x + row[:, None] * features + d[None, :], (row[:, None] < rows) & (d[None, :] < features), 0.0)
        weights = tl.load(w + d, d < features, 0.0)
        total += tl.sum(values.to(tl.float32) * weights.to(tl.float32)[None, :], 1)
    tl.store(y + row, total, row < rows)


@triton.jit
def weighted_backward(x, w, g, gx, partial, rows, features, R: tl.constexpr, D: tl.constexpr):
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    scale = tl.load(g + row, row < rows, 0.0).to(tl.float32)
    for start in range(0, features, D):
        d = start + tl.arange(0, D)
        inside = (row[:, None] < rows) & (d[None, :] < features)
        values = tl.load(x + row[:, None] * features + d[None, :], inside, 0.0).to(tl.float32)
        weights = tl.load(w + d, d < features, 0.0).to(tl.float32)
        tl.store(gx + row[:, None] * features + d[None, :], (scale[:, None] * weights[None, :]).to(gx.dtype.element_ty),
                 inside)
        tl.store(partial + tl.program_id(0).to(tl.int64) * features + d, tl.sum(values * scale[:, None], 0), d < features)


def median_ms(call, sets, runs):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def train(calls):
        start.record()
        for i in range(calls):
            call(i % sets)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / calls

    call(0)
    torch.cuda.synchronize()
    calls = max(4, int(60 / train(4)))
    train(calls)
    return statistics.median(train(calls) for _ in range(runs))


def products(name, t, k, n, runs):
    size = 2 * (t * k + t * n + k * n) + 4 * k * n
    sets = max(1, min(8, (240 << 20) // size + 1))
    make = lambda *shape: [torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    x, dy, w = make(t, k), make(t, n), make(k, n)
    y, dx = make(t, n), make(t, k)
    dw = [torch.zeros(k, n, device="cuda") for _ in range(sets)]
    found = {
        "torch Y": median_ms(lambda i: torch.mm(x[i], w[i], out=y[i]), sets, runs),
        "torch dX": median_ms(lambda i: torch.mm(dy[i], w[i].t(), out=dx[i]), sets, runs),
        "torch dW": median_ms(lambda i: torch.mm(x[i].t(), dy[i], out_dtype=torch.float32), sets, runs),
        "torch dW add": median_ms(lambda i: torch.addmm(dw[i], x[i].t(), dy[i], out_dtype=torch.float32), sets, runs),
        "triton Y": median_ms(lambda i: triton_product(x[i], w[i], y[i]), sets, runs),
        "triton dX": median_ms(lambda i: triton_product(dy[i], w[i].t(), dx[i]), sets, runs),
        "triton dW atomic": median_ms(lambda i: triton_dw_atomic(x[i], dy[i], dw[i]), sets, runs),
    }
    best = None
    for parts in (1, 4, 16):
        if parts * k * n * 4 > 1 << 30:
            continue
        partials = torch.empty(parts, k, n, device="cuda")
        time = median_ms(lambda i: triton_dw_deterministic(x[i], dy[i], dw[i], partials), sets, runs)
        best = time if best is None else min(best, time)
    found["triton dW deterministic"] = best
    return {"shape": name, "t": t, "k": k, "n": n, "ms": found}


def weighted(rows, features, dtype, runs):
    x = torch.randn(rows, features, device="cuda", dtype=dtype)
    w, g = torch.randn(features, device="cuda", dtype=dtype), torch.randn(rows, device="cuda", dtype=dtype)
    y, gx = torch.empty(rows, device="cuda"), torch.empty_like(x)
    size = rows * features * x.element_size()

    def forward(r, d):
        weighted_forward[(triton.cdiv(rows, r),)](x, w, y, rows, features, R=r, D=d, num_warps=4)

    def backward(r, d):
        partial = torch.empty(triton.cdiv(rows, r), features, device="cuda")
        weighted_backward[(partial.shape[0],)](x, w, g, gx, partial, rows, features, R=r, D=d, num_warps=4)
        return partial.sum(0)

    d = min(512, triton.next_power_of_2(features))
    forward_ms = min(median_ms(lambda i: forward(r, d), 1, runs) for r in (4, 16))
    backward_ms = min(median_ms(lambda i: backward(r, d), 1, runs) for r in (16, 32))
    return {"shape": f"ws {rows} x {features} {str(dtype)[6:]}",
            "GB/s": {"triton forward": size / forward_ms * 1e-6, "triton backward": 2 * size / backward_ms * 1e-6}}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--json")
    arguments.add_argument("--runs", type=int, default=7)
    arguments.add_argument("--shapes", default="")
    options = arguments.parse_args()
    wanted = options.shapes.split(",") if options.shapes else [*SHAPES, "ws"]
    results = []
    for name in wanted:
        if name == "ws":
            for rows, features, dtype in ((65536, 8192, torch.float32), (65536, 8192, torch.bfloat16),
                                          (1048576, 128, torch.float32), (4096, 65536, torch.float32)):
                results.append(weighted(rows, features, dtype, options.runs))
                print(results[-1], flush=True)
        else:
            results.append(products(name, *SHAPES[name], options.runs))
            print(results[-1], flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "triton": triton.__version__, "device": torch.cuda.get_device_name(),
                       "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
