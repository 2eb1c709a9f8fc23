"""The measured card's validation kernels, written for the builder as their CUDA sources are."""

import numpy as np

import sim.builder as sim


@sim.kernel
def copy1(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i]


@sim.kernel
def copy4(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y.store(4 * i, x.load(4 * i, width=4))


@sim.kernel
def saxpy(k, n, a, x, y):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = a * x[i] + y[i]


@sim.kernel
def vadd(k, a, b, c, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        c[i] = a[i] + b[i]


@sim.kernel
def gelu(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        v = x[i]
        y[i] = 0.5 * v * (1.0 + k.tanh(0.79788456 * (v + 0.044715 * v * v * v)))


@sim.kernel
def relu_branch(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        with k.if_(x[i] > 0):
            y[i] = x[i]
        with k.else_():
            y[i] = 0


@sim.kernel
def grid_stride_copy(k, x, y, n):
    for i in k.range_(k.block_idx.x * k.block_dim.x + k.thread_idx.x, n, k.grid_dim.x * k.block_dim.x):
        y[i] = x[i]


@sim.kernel
def stride_read(k, x, y, n, s):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i.astype(np.int64) * s]


@sim.kernel
def stride_write(k, x, y, n, s):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i.astype(np.int64) * s] = x[i]


@sim.kernel
def offset_copy(k, x, y, n, o):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[i + o]


@sim.kernel
def gather(k, idx, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = x[idx[i]]


@sim.kernel
def transpose_naive(k, inp, out, n):
    x = k.block_idx.x * 32 + k.thread_idx.x
    y = k.block_idx.y * 32 + k.thread_idx.y
    for j in range(0, 32, 8):
        out[x * n + (y + j)] = inp[(y + j) * n + x]


@sim.kernel
def transpose_tile(k, inp, out, n, *, pad):
    t = k.shared((32, 32 + pad), np.float32)
    tx, ty = k.thread_idx.x, k.thread_idx.y
    x, y = k.block_idx.x * 32 + tx, k.block_idx.y * 32 + ty
    for j in range(0, 32, 8):
        t[ty + j, tx] = inp[(y + j) * n + x]
    k.syncthreads()
    x, y = k.block_idx.y * 32 + tx, k.block_idx.x * 32 + ty
    for j in range(0, 32, 8):
        out[(y + j) * n + x] = t[tx, ty + j]


@sim.kernel
def mm_naive_coal(k, a, b, c, n):
    col = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    row = k.block_idx.y * k.block_dim.y + k.thread_idx.y
    with k.if_((row < n) & (col < n)):
        s = k.var(0.0)
        for j in k.range_(n):
            s += a[row * n + j] * b[j * n + col]
        c[row * n + col] = s


@sim.kernel
def mm_naive_uncoal(k, a, b, c, n):
    row = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    col = k.block_idx.y * k.block_dim.y + k.thread_idx.y
    with k.if_((row < n) & (col < n)):
        s = k.var(0.0)
        for j in k.range_(n):
            s += a[row * n + j] * b[j * n + col]
        c[row * n + col] = s


@sim.kernel
def mm_tiled(k, a, b, c, n, *, tile):
    ta, tb = k.shared((tile, tile)), k.shared((tile, tile))
    tx, ty = k.thread_idx.x, k.thread_idx.y
    col, row = k.block_idx.x * tile + tx, k.block_idx.y * tile + ty
    s = k.var(0.0)
    for t in k.range_((n + tile - 1) // tile):
        ta[ty, tx] = a.load(row * n + t * tile + tx, where=(row < n) & (t * tile + tx < n))
        tb[ty, tx] = b.load((t * tile + ty) * n + col, where=(col < n) & (t * tile + ty < n))
        k.syncthreads()
        for j in k.range_(tile):
            s += ta[ty, j] * tb[j, tx]
        k.syncthreads()
    with k.if_((row < n) & (col < n)):
        c[row * n + col] = s


@sim.kernel
def mm_reg(k, a, b, c, n):
    ta, tb = k.shared((16, 64)), k.shared((16, 64))
    t = k.thread_idx.x
    tx, ty = t % 16, t // 16
    r0, c0 = k.block_idx.y * 64, k.block_idx.x * 64
    acc = [[k.var(0.0) for _ in range(4)] for _ in range(4)]
    for k0 in k.range_(0, n, 16):
        for i in range(4):
            e = t + i * 256
            ta[e % 16, e // 16] = a[(r0 + e // 16) * n + k0 + e % 16]
            tb[e // 64, e % 64] = b[(k0 + e // 64) * n + c0 + e % 64]
        k.syncthreads()
        for j in k.range_(16):
            x = [ta[j, ty * 4 + i] for i in range(4)]
            y = [tb[j, tx * 4 + i] for i in range(4)]
            for i in range(4):
                for m in range(4):
                    acc[i][m] += x[i] * y[m]
        k.syncthreads()
    for i in range(4):
        for m in range(4):
            c[(r0 + ty * 4 + i) * n + c0 + tx * 4 + m] = acc[i][m]


@sim.kernel
def gemv_row(k, a, x, y, n):
    r = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(r < n):
        s = k.var(0.0)
        for j in k.range_(n):
            s += a[r.astype(np.int64) * n + j] * x[j]
        y[r] = s


@sim.kernel
def gemv_warp(k, a, x, y, n):
    r = (k.block_idx.x * k.block_dim.x + k.thread_idx.x) // 32
    lane = k.thread_idx.x & 31
    with k.if_(r < n):
        s = k.var(0.0)
        for j in k.range_(lane, n, 32):
            s += a[r.astype(np.int64) * n + j] * x[j]
        for o in (16, 8, 4, 2, 1):
            s += k.shfl_down(s, o)
        with k.if_(lane == 0):
            y[r] = s


@sim.kernel
def div_if(k, y, n, lanes, iters):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    v = k.var(i.astype(np.float32))
    with k.if_((k.thread_idx.x & 31) < lanes):
        for _ in k.range_(iters):
            v.set(v * 1.0001 + 0.5)
    with k.else_():
        for _ in k.range_(iters):
            v.set(v * 0.9999 - 0.5)
    with k.if_(i < n):
        y[i] = v


@sim.kernel
def div_ways(k, y, n, ways, iters):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    v = k.var(i.astype(np.float32))
    w = (k.thread_idx.x & 31) % ways

    def cases(low, high):
        if high - low == 1:
            for _ in k.range_(iters):
                v.set(v * (1.0 + low * 1e-4) + 0.5)
            return
        middle = (low + high) // 2
        with k.if_(w < middle):
            cases(low, middle)
        with k.else_():
            cases(middle, high)

    cases(0, 32)
    with k.if_(i < n):
        y[i] = v


@sim.kernel
def div_warp(k, y, n, iters):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    v = k.var(i.astype(np.float32))
    with k.if_(((k.thread_idx.x // 32) & 1) != 0):
        for _ in k.range_(iters):
            v.set(v * 1.0001 + 0.5)
    with k.else_():
        for _ in k.range_(iters):
            v.set(v * 0.9999 - 0.5)
    with k.if_(i < n):
        y[i] = v


@sim.kernel
def div_trip(k, trip, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        v = k.var(i.astype(np.float32))
        for _ in k.range_(trip[i]):
            v.set(v * 1.0001 + 0.5)
        y[i] = v


@sim.kernel
def bank(k, y, s, iters):
    sm = k.shared_dynamic(np.float32)
    t = k.thread_idx.x
    for i in k.range_(t, 8192, k.block_dim.x):
        sm[i] = i.astype(np.float32)
    k.syncthreads()
    acc = k.var(0.0)
    a = k.var(((t & 31) * s) % 8192)
    for _ in k.range_(iters):
        acc += sm[a]
        a.set((a + 1) & 8191)
    y[k.block_idx.x * k.block_dim.x + t] = acc


@sim.kernel
def reduce_mod(k, x, y, n):
    s = k.shared(256)
    t = k.thread_idx.x
    i = k.block_idx.x * 256 + t
    s[t] = x.load(i, where=i < n)
    k.syncthreads()
    d = 1
    while d < 256:
        with k.if_(t % (2 * d) == 0):
            s[t] += s[t + d]
        k.syncthreads()
        d *= 2
    with k.if_(t == 0):
        y[k.block_idx.x] = s[0]


@sim.kernel
def reduce_bank(k, x, y, n):
    s = k.shared(256)
    t = k.thread_idx.x
    i = k.block_idx.x * 256 + t
    s[t] = x.load(i, where=i < n)
    k.syncthreads()
    d = 1
    while d < 256:
        with k.if_(2 * d * t < 256):
            s[2 * d * t] += s[2 * d * t + d]
        k.syncthreads()
        d *= 2
    with k.if_(t == 0):
        y[k.block_idx.x] = s[0]


@sim.kernel
def reduce_seq(k, x, y, n):
    s = k.shared(256)
    t = k.thread_idx.x
    i = k.block_idx.x * 256 + t
    s[t] = x.load(i, where=i < n)
    k.syncthreads()
    for d in (128, 64, 32, 16, 8, 4, 2, 1):
        with k.if_(t < d):
            s[t] += s[t + d]
        k.syncthreads()
    with k.if_(t == 0):
        y[k.block_idx.x] = s[0]


@sim.kernel
def reduce_shfl(k, x, y, n):
    s = k.shared(8)
    t = k.thread_idx.x
    i = k.block_idx.x * 256 + t
    v = k.var(x.load(i, where=i < n))
    for o in (16, 8, 4, 2, 1):
        v += k.shfl_down(v, o)
    with k.if_((t & 31) == 0):
        s[t // 32] = v
    k.syncthreads()
    with k.if_(t < 8):
        v.set(s[t])
        for o in (4, 2, 1):
            v += k.shfl_down(v, o)
        with k.if_(t == 0):
            y[k.block_idx.x] = v


@sim.kernel
def softmax_row(k, x, y, d):
    s = k.shared(32)
    t = k.thread_idx.x
    row = k.block_idx.x.astype(np.int64) * d
    m = k.var(-1e30)
    for i in k.range_(t, d, k.block_dim.x):
        m.set(k.max(m, x[row + i]))
    for o in (16, 8, 4, 2, 1):
        m.set(k.max(m, k.shfl_xor(m, o)))
    with k.if_((t & 31) == 0):
        s[t // 32] = m
    k.syncthreads()
    m.set(s[0])
    for i in k.range_(1, k.block_dim.x // 32):
        m.set(k.max(m, s[i]))
    k.syncthreads()
    z = k.var(0.0)
    for i in k.range_(t, d, k.block_dim.x):
        z += k.exp(x[row + i] - m, fast=True)
    for o in (16, 8, 4, 2, 1):
        z += k.shfl_xor(z, o)
    with k.if_((t & 31) == 0):
        s[t // 32] = z
    k.syncthreads()
    z.set(0.0)
    for i in k.range_(k.block_dim.x // 32):
        z += s[i]
    for i in k.range_(t, d, k.block_dim.x):
        y[row + i] = k.exp(x[row + i] - m, fast=True) / z


@sim.kernel
def layernorm_row(k, x, y, d):
    s, s2 = k.shared(32), k.shared(32)
    t = k.thread_idx.x
    row = k.block_idx.x.astype(np.int64) * d
    a, b = k.var(0.0), k.var(0.0)
    for i in k.range_(t, d, k.block_dim.x):
        v = x[row + i]
        a += v
        b += v * v
    for o in (16, 8, 4, 2, 1):
        a += k.shfl_xor(a, o)
        b += k.shfl_xor(b, o)
    with k.if_((t & 31) == 0):
        s[t // 32] = a
        s2[t // 32] = b
    k.syncthreads()
    a.set(0.0)
    b.set(0.0)
    for i in k.range_(k.block_dim.x // 32):
        a += s[i]
        b += s2[i]
    mu = a / d
    rs = k.rsqrt(b / d - mu * mu + 1e-5)
    for i in k.range_(t, d, k.block_dim.x):
        y[row + i] = (x[row + i] - mu) * rs


@sim.kernel
def hist(k, x, h, n, bins):
    sh = k.shared_dynamic(np.int32)
    for i in k.range_(k.thread_idx.x, bins, k.block_dim.x):
        sh[i] = 0
    k.syncthreads()
    for i in k.range_(k.block_idx.x * k.block_dim.x + k.thread_idx.x, n, k.grid_dim.x * k.block_dim.x):
        k.atomic_add(sh, x[i] % bins, 1)
    k.syncthreads()
    for i in k.range_(k.thread_idx.x, bins, k.block_dim.x):
        k.atomic_add(h, i, sh[i])


@sim.kernel
def k_sin(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = k.sin(x[i])


@sim.kernel
def k_cos(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        y[i] = k.cos(x[i])


@sim.kernel
def k_fused(k, x, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        s, c = k.sin(x[i]), k.cos(x[i])
        y[i] = s * s + c * c


def sigmoid(k, v):
    return 1.0 / (1.0 + k.exp(-v, fast=True))


@sim.kernel
def sig3_fwd_store(k, x, s1, s2, o, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        a = sigmoid(k, x[i])
        s1[i] = a
        b = sigmoid(k, a)
        s2[i] = b
        o[i] = sigmoid(k, b)


@sim.kernel
def sig3_bwd_load(k, g, s1, s2, o, dx, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        a, b, c = s1[i], s2[i], o[i]
        dx[i] = g[i] * c * (1 - c) * b * (1 - b) * a * (1 - a)


@sim.kernel
def sig3_fwd(k, x, o, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        o[i] = sigmoid(k, sigmoid(k, sigmoid(k, x[i])))


@sim.kernel
def sig3_bwd_recompute(k, g, x, dx, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    with k.if_(i < n):
        a = sigmoid(k, x[i])
        b = sigmoid(k, a)
        c = sigmoid(k, b)
        dx[i] = g[i] * c * (1 - c) * b * (1 - b) * a * (1 - a)


@sim.kernel
def attn_scores(k, q, kk, s, n, d):
    c, r, h = k.block_idx.x * 16 + k.thread_idx.x, k.block_idx.y * 16 + k.thread_idx.y, k.block_idx.z
    acc = k.var(0.0)
    hn = h.astype(np.int64) * n
    for i in k.range_(d):
        acc += q[(hn + r) * d + i] * kk[(hn + c) * d + i]
    s[(hn + r) * n + c] = acc * 0.125


@sim.kernel
def attn_pv(k, p, v, o, n, d):
    c, r, h = k.block_idx.x * 16 + k.thread_idx.x, k.block_idx.y * 16 + k.thread_idx.y, k.block_idx.z
    acc = k.var(0.0)
    hn = h.astype(np.int64) * n
    for j in k.range_(n):
        acc += p[(hn + r) * n + j] * v[(hn + j) * d + c]
    o[(hn + r) * d + c] = acc


@sim.kernel
def spin(k, y, iters):
    v = k.var(k.thread_idx.x.astype(np.float32))
    for _ in k.range_(iters):
        v.set(v * 1.0001 + 0.5)
    y[k.block_idx.x * k.block_dim.x + k.thread_idx.x] = v


@sim.kernel
def occ(k, y, iters, *, live):
    v = [k.var(k.thread_idx.x.astype(np.float32) * 0.1 + float(i)) for i in range(live)]
    for _ in k.range_(iters):
        for i in range(live):
            v[i].set(v[i] * 1.0001 + v[(i + 1) % live])
    s = k.var(0.0)
    for i in range(live):
        s += v[i]
    y[k.block_idx.x * k.block_dim.x + k.thread_idx.x] = s


@sim.kernel
def stencil(k, x, y, n):
    c = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    r = k.block_idx.y * k.block_dim.y + k.thread_idx.y
    with k.if_((c > 0) & (r > 0) & (c < n - 1) & (r < n - 1)):
        y[r * n + c] = 0.2 * (
            x[r * n + c] + x[r * n + c - 1] + x[r * n + c + 1] + x[(r - 1) * n + c] + x[(r + 1) * n + c]
        )
