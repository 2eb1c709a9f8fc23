"""Solutions of the lessons' exercises: what to put into an exercise's cell so that the check after it passes."""

SOLUTIONS: dict[str, dict[str, str]] = {
    "00_tour": {
        "exercise-1": "prediction = 12  # three times the bytes, and no sector without a number in it",
        "exercise-2": "stride = 0",
    },
    "01_simt_warps_divergence": {
        "exercise-1": """
@sim.kernel
def halves(k, y):
    t = k.thread_idx.x
    v = k.var(1.0)
    with k.if_(t // 32 % 2 == 0):
        work(k, v, 0.5)
    with k.else_():
        work(k, v, 0.25)
    y[t] = v
""",
        "exercise-2": """
@sim.kernel
def by_data(k, flags, y):
    t = k.thread_idx.x
    v = k.var(1.0)
    work(k, v, k.select(flags[t] != 0, 0.5, 0.25))
    y[t] = v
""",
    },
    "02_coalescing": {
        "exercise-1": """
@sim.kernel
def scale(k, a, y):
    i = k.block_idx.y * 8 + k.thread_idx.y
    j = k.block_idx.x * 32 + k.thread_idx.x
    y[i, j] = 2 * a[i, j]
""",
        "exercise-2": """
def layout(points):
    return points.T.ravel()


@sim.kernel
def squared_length(k, p, y, n):
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    px, py, pz = p[i], p[n + i], p[2 * n + i]
    y[i] = px * px + py * py + pz * pz
""",
        "exercise-3": "pitch = 104",
    },
    "03_shared_memory_banks": {
        "exercise-1": "prediction = 8  # four banks for 32 lanes",
        "exercise-2": """
@sim.kernel
def tile_sums(k, x, y):
    tile = k.shared((32, 32), np.float32)
    t = k.thread_idx.x
    for i in range(32):
        tile[i, t] = x[i, t]
    k.syncthreads()
    s = k.var(0.0)
    for j in k.range_(32, unroll=1):
        s += tile[t, (j + t) % 32]
    y[t] = s
""",
        "exercise-3": """
@sim.kernel
def swizzled(k, x, y):
    tile = k.shared((TILE, TILE), np.float32)
    tx, ty = k.thread_idx.x, k.thread_idx.y
    row, column = k.block_idx.y * TILE, k.block_idx.x * TILE
    tile[ty, tx ^ ty] = x[row + ty, column + tx]
    k.syncthreads()
    y[column + ty, row + tx] = tile[tx, ty ^ tx]
""",
    },
    "04_matmul_ladder": {
        "exercise-1": "by_tiled, by_register_tiled = 128 // 16, 128 // 32",
        "exercise-2": """
BLOCK = (32, 32)


@sim.kernel
def times_transposed(k, a, b, c, n):
    tile_a = k.shared((T, T), np.float32)
    tile_b = k.shared((T, T + 1), np.float32)
    tx, ty = k.thread_idx.x, k.thread_idx.y
    row, column = k.block_idx.y * T, k.block_idx.x * T
    s = k.var(0.0)
    for start in k.range_(0, n, T):
        tile_a[ty, tx] = a[row + ty, start + tx]
        tile_b[ty, tx] = b[column + ty, start + tx]
        k.syncthreads()
        for i in range(T):
            s += tile_a[ty, i] * tile_b[tx, i]
        k.syncthreads()
    c[row + ty, column + tx] = s
""",
        "exercise-3": """
TILE = 64


@sim.kernel
def wide(k, a, b, c, n):
    tile_a = k.shared((TILE, TILE), np.float32)
    tile_b = k.shared((TILE, TILE), np.float32)
    t = k.thread_idx.x
    tx, ty = t % 16, t // 16
    from_x, from_y = t % TILE, t // TILE
    row, column = k.block_idx.y * TILE, k.block_idx.x * TILE
    sums = [[k.var(0.0) for _ in range(4)] for _ in range(4)]
    for start in k.range_(0, n, TILE):
        for down in range(0, TILE, 256 // TILE):
            x = a[row + from_y + down, start + from_x]
            tile_a[from_y + down, from_x] = x
            y = b[start + from_y + down, column + from_x]
            tile_b[from_y + down, from_x] = y
        k.syncthreads()
        for i in range(TILE):
            for r in range(4):
                for q in range(4):
                    sums[r][q] += tile_a[4 * ty + r, i] * tile_b[i, 4 * tx + q]
        k.syncthreads()
    for r in range(4):
        for q in range(4):
            c[row + 4 * ty + r, column + 4 * tx + q] = sums[r][q]
""",
    },
    "05_matrix_mystery": {
        "exercise-1": "tiles, waves, last_wave = 12 * 12, 2, 12 * 12 - 132",
        "exercise-2": "batch = 11 * 128",
        "exercise-3": "vocabulary = 50264  # 8 * 6283",
    },
    "06_low_precision_fusion_recomputation": {
        "exercise-1": "prediction = 8  # 4 and 2 are read, 2 are written",
        "exercise-2": """
@sim.kernel
def scaled_swish_add(k, x, r, y):
    results = []
    for v, w in zip(x.load(first(k), width=WIDTH), r.load(first(k), width=WIDTH), strict=True):
        half = 0.5 * v
        results.append(half * sigmoid(k, half) + w)
    y.store(first(k), results)


def layer(device, x, r, y, t, u):
    return [run(device, scaled_swish_add, x, r, y)]
""",
        "exercise-3": """
ELEMENTS = 8


@sim.kernel
def double(k, x, y):
    i = ELEMENTS * (k.block_idx.x * k.block_dim.x + k.thread_idx.x)
    y.store(i, [(2 * v.astype(np.float32)).astype(y.dtype) for v in x.load(i, width=ELEMENTS)])
""",
        "exercise-4": """
@sim.kernel
def swish_forward(k, x, s, y):
    y.store(first(k), [v * sigmoid(k, v) for v in x.load(first(k), width=WIDTH)])


@sim.kernel
def swish_backward(k, g, x, s, dx):
    results = []
    for w, v in zip(g.load(first(k), width=WIDTH), x.load(first(k), width=WIDTH), strict=True):
        t = sigmoid(k, v)
        results.append(w * (t + v * (t * (1 - t))))
    dx.store(first(k), results)
""",
    },
    "07_latency_hiding_occupancy": {
        "exercise-1": "prediction = 24  # a block takes 20,480 registers, so three fit: 24 warps",
        "exercise-2": """
@sim.kernel
def sums(k, x, y):
    threads = k.grid_dim.x * k.block_dim.x
    i = k.block_idx.x * k.block_dim.x + k.thread_idx.x
    s = k.vars(4)
    for r in k.range_(16, unroll=1):
        for part, v in zip(s, x.load(4 * (i + r * threads), width=4), strict=True):
            part += v
    y[i] = s[0] + s[1] + s[2] + s[3]
""",
        "exercise-3": """
@sim.kernel
def series(k, x, y):
    v, s = k.var(x[k.thread_idx.x]), k.vars(4)
    for _ in k.range_(64, unroll=1):
        for j in range(TERMS):
            s[j % 4].set(v * (j + 2) + s[j % 4])
        v.set(v * 0.5)
    y[k.thread_idx.x] = s[0] + s[1] + s[2] + s[3]
""",
        "exercise-4": "block = 128",
    },
    "pingpong_gemm": {
        "exercise-1": "instructions = 16 * 8 * 8 * 16  # tiles, warps, products of 16 numbers of k",
        "exercise-2": "half_busy = 1280  # 16 cycles of products for each of k, 20,000 idle ones",
        "exercise-3": "rows = 1024  # 16 * 8 tiles",
    },
}
