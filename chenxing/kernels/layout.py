"""Memory layouts that kernels and their callers share. Offsets and sizes in bytes; no numba here.

Control block of a team (one cache line per hot word), see executor.py for its life:
    END        sequence number after the last op of the published step
    CURRENT    sequence number of the op being worked on
    DONE       chunks of the current op that are done
    PLAN       address of the step's plan, BASE its first sequence number, STEP the step's counters, CUT its word:
               not 0 there: the chunks that are left are passed over, and the step ends after the current op
    STOP       not 0: workers leave
    CLAIMS     one word a thread: (sequence number << TAG) + chunks claimed of its range

A program is a table of ops. Each op is a group of *parts* that may run at the same time; a part is a kernel, its
arguments and how many chunks it has:
    n_chunks = chunks * ceil(step[unit] / divisor)        unit 0 counts as 1
An op may have a prologue: a kernel that every thread runs, row by row, into its own scratch before it takes chunks.
It is used for steps of at most EACH_ROWS rows, where it replaces an op of its own; `when` says in which steps an op
runs.
"""

END, CURRENT, DONE = 0, 64, 128
PLAN, BASE, STEP, CUT, STOP = 192, 200, 208, 216, 256
CLAIMS = 320
MAX_THREADS = 256
CONTROL_BYTES = CLAIMS + 64 * MAX_THREADS
TAG = 20

# an op: parts, number of parts, prologue kernel or 0, its arguments, when, total chunks (written by the planner)
OP_PARTS, OP_N_PARTS, OP_PROLOGUE, OP_PROLOGUE_ARGS, OP_WHEN, OP_TOTAL = 0, 8, 16, 24, 32, 40
OP_BYTES = 48
ALWAYS, MANY_ROWS, ANY_OUTPUT, FEW_ROWS = 0, 1, 2, 3

# a part: kernel, arguments, chunks, unit, divisor, number of chunks in this step (written by the planner)
PART_KERNEL, PART_ARGS, PART_CHUNKS, PART_UNIT, PART_DIVISOR, PART_COUNT = 0, 8, 16, 24, 32, 40
PART_BYTES = 48

# counters of a step, int64 each; the index is a part's `unit`
ONE, N_ROWS, N_OUTPUTS, N_TASKS, N_MERGES = 0, 1, 2, 3, 4
STEP_WORDS = 8
EACH_ROWS = 4
SPARE_ROWS = 15  # of memory after a matrix's input: rows are read in whole groups, on AMX of 16

# quantised activations: per 32 values (Q8) and per 256 values (Q8K)
Q8_BLOCK = 48  # i8[32], f32 d, f32 d * sum, i32 sum, 4 unused
Q8_D, Q8_DSUM, Q8_SUM = 32, 36, 40
Q8K_BLOCK = 320  # i8[256], f32 d, 12 unused, i16 sums[16] of 16 values each, i16 sums[8] of 32 each
Q8K_D, Q8K_SUMS, Q8K_SUMS32 = 256, 272, 304
# with one scale for a row (int8.py): f32 d, i32 sum, i64 number of outliers; from INT8_QUANTS on i8[n], then outliers
INT8_D, INT8_SUM, INT8_N_OUTLIERS, INT8_QUANTS = 0, 4, 8, 64
INT8_OUTLIER = 8  # i32 k, f32 x
# a tile of weights for those: f32[16] scales; i64 bytes from the tile to its part of the first column, and from one
# column to the next; from INT8_HEAD on q
INT8_COLUMNS, INT8_COLUMN, INT8_HEAD = 64, 72, 128

# KV pages
PAGE = 32  # tokens
SEGMENT = 512  # keys that share one softmax unit, at fixed absolute positions

ALIGN = 64
