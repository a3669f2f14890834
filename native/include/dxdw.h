/*
 * dxdw: the gradient kernels of a matrix product, on the CPU and on NVIDIA GPUs.
 *
 * Letters: T = tokens (batch times sequence), K = inputs, N = outputs, D = features.
 *
 *   y_launch          Y  = X . W                          X [T,K], W [K,N], Y [T,N]
 *   dx_launch         dX = dY . W^T                       dY [T,N], W [K,N], dX [T,K]
 *   dw_launch         dW += X^T . dY                      X [T,K], dY [T,N], dW [K,N]
 *   dw_reduce         dW += sum over s of partials[s]     partials [split,K,N], dW [K,N]
 *   weighted_sum_fwd  y[i] = sum over d of x[i,d] . w[d]  x [...,D], w [D], y [...]
 *   weighted_sum_bwd  gx[i,d] = g[i] . w[d]; gw[d] = sum over i of x[i,d] . g[i]
 *
 * What stands around a product when a network is trained is reached by dxdw_call: activations, bias gradients, losses,
 * norms and optimizer steps. See "Functions of dxdw_call".
 *
 * Tensors. An operand crosses as a dxdw_tensor, byte for byte a DLPack DLTensor. Shapes and strides are counted in
 * elements, byte_offset in bytes. Inputs take any stride: 0 (expanded), negative (reversed), any padding; the stride of
 * a dimension of size 1 means nothing and may hold anything. Outputs take any strides under which no two elements
 * share memory. Element addresses must be multiples of the element's size, nothing more. The number of elements must fit
 * 64 bits, and the outermost ones lie within 2^61 bytes. All operands of a call live on one device. No operand is copied
 * in order to transpose it; a transpose is a swap of strides.
 *
 * Types. float32, float16 and bfloat16 operands, the same type for all inputs of a call; the output has that type or
 * float32. Products and sums are accumulated in float32 whatever the operands are, and rounded once, at the end, to
 * nearest even. A float16 output beyond 65504 becomes infinite. 0 . NaN and 0 . Inf are NaN: nothing is skipped.
 *
 * Add or assign. Gradients of weights and biases, and norms, are added to what the buffer holds, all else is assigned,
 * unless options say otherwise. Assigning never reads the old contents, so they may be uninitialised or NaN. Adding to NaN leaves NaN.
 *
 * Empty sizes are legal once all other checks have passed, whatever the other sizes and the strides are. A contraction
 * of length 0 assigns +0.0 or adds nothing; an empty output is left alone.
 *
 * Aliases. An output must not share an element with another operand or with the workspace. Inputs may alias each other.
 * Where a function says "in place", an output may also be exactly an input: the same address, type, shape and strides.
 * Views that share an element are always refused. So are a few that do not: views whose elements lie between each
 * other's, when one of them has gaps between the elements of a row, or has more than two dimensions that do not merge
 * into two. They pass where all elements of both lie on grids that never touch, as the even and the odd columns of a
 * matrix do whose row stride is even. Rows, columns, blocks and every other row of a matrix are told apart.
 *
 * Status. Every function that returns int32_t returns a dxdw_status. After anything but DXDW_OK the reason stands in
 * dxdw_last_error() of the same thread. All checks come before the first write: after DXDW_INVALID_ARGUMENT nothing
 * has been written. No function prints, exits, aborts, throws, or changes the floating-point environment or the
 * caller's current CUDA device.
 *
 * Threads. All functions may be called by any number of threads at once; calls that write the same output must be
 * ordered by the caller. Calls on the CPU are complete on return. Calls on a CUDA device that name a stream are
 * ordered on it and may return earlier; calls without one are complete on return.
 *
 * Order of sums. With deterministic = 1 results are one bit pattern for given inputs, split, types and kind of device,
 * whatever the number of threads or the load. On the CPU that holds with deterministic = 0 too, except for dW with
 * split > 1. Beyond that, the following orders are promised.
 *
 * - dw_reduce, on every device: sum = +0.0; sum += partials[s] for s = 0, 1, 2, ...; dW = sum (assign) or dW = dW + sum
 *   (add), each step one float32 operation. Adding no partials at all changes nothing.
 * - dw_launch with deterministic = 1 and split > 1: the result equals, to the bit, dw_reduce over the partials that
 *   dw_launch with split = 1 assigns for each slice of T alone.
 * - y_launch, dx_launch and each slice of dw_launch on the CPU, at SIMD levels with fused multiply-add, for float32 and
 *   float16 operands, and for bfloat16 operands with DXDW_PRECISION_EXACT: the contraction is cut into blocks of
 *   DXDW_CPU_BLOCK; each block's sum is a chain of fused multiply-adds in rising order that starts at +0.0; the first
 *   block's sum is assigned or added to the old value, and each later one is added to the result so far. A row of Y or
 *   dX therefore has the same bits for every T.
 * - weighted_sum_bwd on the CPU, gw: rows are cut into blocks of a size that depends on their number alone; each block
 *   is summed in rising order, and the blocks are added as dw_reduce adds partials.
 */
#ifndef DXDW_H
#define DXDW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DXDW_ABI_VERSION 2

/* Most dimensions that a tensor may have. */
#define DXDW_MAX_NDIM 32

/* Contraction block of the CPU kernels: see "Order of sums". */
#define DXDW_CPU_BLOCK 512

enum dxdw_status {
  DXDW_OK = 0,
  DXDW_INVALID_ARGUMENT = 1,   /* the message names the argument and both values */
  DXDW_OUT_OF_MEMORY = 2,      /* the message says bytes asked and, where known, free */
  DXDW_UNSUPPORTED = 3,        /* legal, but this build or device cannot do it */
  DXDW_DEVICE_UNAVAILABLE = 4, /* no such device: the message says why */
  DXDW_DEVICE_ERROR = 5,       /* the driver refused or failed a call: the message has its name for the error */
  DXDW_DEVICE_LOST = 6         /* an earlier fault broke the device's context; the message tells the first cause */
};

enum dxdw_device_type { DXDW_CPU = 1, DXDW_CUDA = 2 };

/* dtype_code of a dxdw_tensor. float32 is (FLOAT, 32), float16 (FLOAT, 16), bfloat16 (BFLOAT, 16); int32 is (INT, 32),
 * for labels and for copies from int32 to int32 alone; lanes are 1. */
enum dxdw_dtype_code { DXDW_INT = 0, DXDW_FLOAT = 2, DXDW_BFLOAT = 4 };

enum dxdw_accumulate {
  DXDW_ACCUMULATE_DEFAULT = 0, /* dW, gw, gb, db and norm add; all else is assigned */
  DXDW_ADD = 1,                /* out += result, one rounding */
  DXDW_ASSIGN = 2              /* out = result; the old contents are never read */
};

enum dxdw_precision {
  /* float32 operands: float32 multiply-add. 16-bit operands: products exact, sums float32, through the chip's 16-bit
   * matrix or dot-product unit where it has one. CPUs with AVX512-BF16, or with Arm's BF16 instructions, have one for
   * bfloat16 operands: it adds products in pairs and takes subnormal operands and results as zero. AVX512-BF16 rounds
   * the sums to nearest even. Arm adds the two products of a pair first, then their sum to the rest, and rounds both to
   * odd: an inexact sum becomes the neighbour whose last bit is 1, up to one unit in the last place away. */
  DXDW_PRECISION_DEFAULT = 0,
  /* As above, but 16-bit operands are widened to float32 and go through float32 multiply-add. */
  DXDW_PRECISION_EXACT = 1,
  /* float32 operands are rounded to TF32 (10 bits behind the point, to nearest) and multiplied by the matrix unit, sums
   * float32: on GPUs of compute capability 9.0, for Y and dX with at least 8,192 weights, for dW with as many results,
   * and neither of their two sizes below 16; elsewhere as default. */
  DXDW_PRECISION_TF32 = 2,
  /* float32 operands are split into three bfloat16 parts each, x = h + m + l, and the matrix unit forms the six products
   * of parts that count; sums are rounded in float32 every 64 products. Where TF32 is; elsewhere as default. As exact as
   * float32 multiply-add. Root mean square error as a share of the sum of magnitudes, by bfloat16 parts, by float32
   * multiply-add and by TF32: 0.8e-8, 2.8e-8, 710e-8 over 4,096 products of both signs; 27e-8, 84e-8, 2800e-8 over 4,096
   * products of one sign; 2.2e-8, 2.8e-8, 2000e-8 over 512 of both. Infinite operands give NaN, and of operands below
   * about 2^-110 the lower parts are lost. */
  DXDW_PRECISION_BF16X3 = 3
};

/* Bits of dxdw_options.flags. */
enum dxdw_flags {
  /* Row i of Y, dX and y has the same bits for every number of rows T. On the CPU it is so in any case. */
  DXDW_BATCH_INVARIANT = 1
};

/* Which function dxdw_call, dxdw_explain and dxdw_workspace speak of. */
enum dxdw_function {
  DXDW_Y = 0,                /* operands x, w, y */
  DXDW_DX = 1,               /* operands dy, w, dx */
  DXDW_DW = 2,               /* operands x, dy, dw */
  DXDW_DW_REDUCE = 3,        /* operands partials, dw */
  DXDW_WEIGHTED_SUM_FWD = 4, /* operands x, w, y */
  /* operands x, w, g, gx, gw; in an array, an operand with data NULL and ndim -1 is not wanted */
  DXDW_WEIGHTED_SUM_BWD = 5,
  DXDW_COPY = 6,      /* operands source, destination: dxdw_copy by way of dxdw_call; no plan, no workspace */
  DXDW_ADD_FWD = 7,   /* operands a, b, y; this one and the following: see "Functions of dxdw_call" */
  DXDW_RELU_FWD = 8,  /* operands x, y */
  DXDW_RELU_BWD = 9,  /* operands x, g, gx */
  DXDW_GELU_FWD = 10, /* operands x, y */
  DXDW_GELU_BWD = 11, /* operands x, g, gx */
  DXDW_SUM_ROWS = 12, /* operands g, gb */
  DXDW_DW_BIAS = 13,  /* operands x, dy, dw, db */
  DXDW_SOFTMAX_CROSS_ENTROPY_FWD = 14, /* operands logits, labels, loss */
  DXDW_SOFTMAX_CROSS_ENTROPY_BWD = 15, /* operands logits, labels, g, gx */
  DXDW_SQUARED_ERROR_FWD = 16,         /* operands x, target, loss */
  DXDW_SQUARED_ERROR_BWD = 17,         /* operands x, target, g, gx */
  DXDW_SQUARED_NORM = 18,              /* operands x, norm */
  DXDW_CLIP_FACTOR = 19,               /* operands norm, scale; scalars maxNorm */
  DXDW_SGD = 20,  /* operands p, g, velocity, copy, scale; scalars lr, momentum, weight decay, nesterov */
  DXDW_ADAMW = 21 /* operands p, g, m, v, copy, scale; scalars lr, beta1, beta2, eps, weight decay, step */
};

/* What dxdw_counter counts since the library was loaded, or holds now. */
enum dxdw_counter_kind {
  DXDW_COUNTER_LAUNCHES = 0,      /* kernels run, on every device; checks and empty calls run none */
  DXDW_COUNTER_POOL_JOBS = 1,     /* calls that used the CPU thread pool */
  DXDW_COUNTER_SCRATCH_BYTES = 2, /* bytes of CPU scratch now kept for reuse or in use */
  DXDW_COUNTER_DEVICE_BYTES = 3   /* bytes now allocated on CUDA devices through this library */
};

/* Where dxdw_inject_fault strikes. */
enum dxdw_fault {
  DXDW_FAULT_ALLOCATE = 0,
  DXDW_FAULT_COPY = 1,
  DXDW_FAULT_LAUNCH = 2,
  DXDW_FAULT_SYNCHRONIZE = 3,
  DXDW_FAULT_STICKY = 4
};

/* DLPack's DLTensor. */
typedef struct dxdw_tensor {
  void *data;           /* may be NULL when the tensor has no elements */
  int32_t device_type;  /* dxdw_device_type */
  int32_t device_id;    /* 0 for the CPU */
  int32_t ndim;         /* 0 to DXDW_MAX_NDIM */
  uint8_t dtype_code;   /* dxdw_dtype_code */
  uint8_t dtype_bits;   /* 16 or 32 */
  uint16_t dtype_lanes; /* 1 */
  int64_t *shape;       /* ndim sizes >= 0 */
  int64_t *strides;     /* ndim strides in elements; NULL = compact row-major */
  uint64_t byte_offset; /* added to data */
} dxdw_tensor;

typedef struct dxdw_stream dxdw_stream;
typedef struct dxdw_event dxdw_event;
typedef struct dxdw_graph dxdw_graph;

/* Options of a call; zero bytes everywhere but in `size` mean the defaults. */
typedef struct dxdw_options {
  uint32_t size;            /* sizeof(dxdw_options) */
  int32_t accumulate;       /* dxdw_accumulate */
  int32_t precision;        /* dxdw_precision */
  int32_t flags;            /* sum of dxdw_flags */
  dxdw_stream *stream;      /* CUDA only; NULL: the call is complete on return */
  void *workspace;          /* on the operands' device, aligned to 64 bytes; NULL: the library's own for this call */
  uint64_t workspace_bytes; /* at least what dxdw_workspace tells */
  double scalars[8];        /* what the function's own numbers are; the functions without any don't read them */
} dxdw_options;

/* What a call would run. Strings end in 0. */
typedef struct dxdw_plan {
  uint32_t size;            /* sizeof(dxdw_plan), set by the caller */
  int32_t split;            /* slices of T for dw_launch (planned when 0 was asked); 1 elsewhere */
  int32_t threads;          /* CPU threads, or thread blocks on a GPU */
  int32_t reserved;         /* 0 */
  int64_t tiles;            /* output tiles */
  uint64_t workspace_bytes; /* as dxdw_workspace tells */
  char kernel[64];
  char level[32]; /* SIMD level or GPU architecture */
  char why[256];  /* one sentence */
} dxdw_plan;

/* A device of one kind. */
typedef struct dxdw_device_info {
  uint32_t size;            /* sizeof(dxdw_device_info), set by the caller */
  int32_t multiprocessors;  /* CPU: hardware threads that this process may use */
  int32_t capability_major; /* CUDA compute capability; 0 for the CPU */
  int32_t capability_minor;
  uint64_t total_bytes;
  uint64_t free_bytes;
  char name[128];
} dxdw_device_info;

/* ---- The six functions --------------------------------------------------------------------------------------------
 */

/* Y[t,n] = sum over k of X[t,k] . W[k,n].  x [T,K], w [K,N], y [T,N].  options may be NULL. */
int32_t y_launch(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *y, const dxdw_options *options);

/* dX[t,k] = sum over n of dY[t,n] . W[k,n].  dy [T,N], w [K,N], dx [T,K].  options may be NULL. */
int32_t dx_launch(const dxdw_tensor *dy, const dxdw_tensor *w, const dxdw_tensor *dx, const dxdw_options *options);

/*
 * dW[k,n] += sum over t of X[t,k] . dY[t,n].  x [T,K], dy [T,N], dw [K,N] (float32, or the operands' type).
 *
 * split: number of slices of T, from 0 to max(T, 1). chunk = ceil(T / split); slice s covers [s.chunk, min((s+1).chunk,
 * T)), so trailing slices may be empty. 0 lets the library choose, from shape, types and device alone. deterministic: 1
 * = each slice writes a float32 partial to the workspace, and they are added in slice order as dw_reduce does. 0 =
 * slices may add into dW atomically, in any order; a 16-bit dW goes through the workspace all the same, for each
 * element is rounded once. Atomic additions of a GPU take subnormal values, and give subnormal sums, as zero.
 * Workspace with split > 1: split . K . N floats where slices are reduced in order, none on the CPU where they are
 * added atomically; with split = 1 none on the CPU. GPUs may pad rows and pack operands (6 bytes an element for BF16X3,
 * 4 for TF32): ask dxdw_workspace. Subnormals on CUDA: atomic adds, and adds of the Hopper kernels into a float32 dW,
 * take subnormal sums as zero.
 */
int32_t dw_launch(const dxdw_tensor *x, const dxdw_tensor *dy, const dxdw_tensor *dw, int32_t split,
                  int32_t deterministic, const dxdw_options *options);

/* dW[k,n] += sum over s of partials[s,k,n], s = 0, 1, 2, ... in that order.  Both float32; partials [split,K,N]. */
int32_t dw_reduce(const dxdw_tensor *partials, const dxdw_tensor *dw, const dxdw_options *options);

/* y[i] = sum over d of x[i,d] . w[d].  x [..., D] of rank 1 or more, w [D], y [...]: x's leading dimensions. */
int32_t weighted_sum_fwd(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *y, const dxdw_options *options);

/*
 * gx[i,d] = g[i] . w[d] (assigned by default) and gw[d] += sum over i of x[i,d] . g[i] (added by default).
 * x [..., D], w [D], g [...], gx as x, gw [D]. gx or gw may be NULL: not wanted, costs nothing.
 */
int32_t weighted_sum_bwd(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *g, const dxdw_tensor *gx,
                         const dxdw_tensor *gw, const dxdw_options *options);

/*
 * Runs any function of dxdw_function on operands that stand in an array, in the order that dxdw_function tells.
 * split and deterministic count for DXDW_DW and DXDW_DW_BIAS only. hold0 to hold5 are not read: a foreign-function
 * interface that keeps alive the memory behind each pointer argument for the duration of a call keeps the operands'
 * memory alive when they are passed here.
 */
int32_t dxdw_call(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                  const dxdw_options *options, const void *hold0, const void *hold1, const void *hold2,
                  const void *hold3, const void *hold4, const void *hold5);

/* Says what dxdw_call would run, after the same checks, without running it. */
int32_t dxdw_explain(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                     const dxdw_options *options, dxdw_plan *plan);

/*
 * Says what dxdw_call would run on a CUDA device of that compute capability (major times 10 plus minor: 80, 90, ...)
 * with that many multiprocessors, after the same checks. function: DXDW_Y, DXDW_DX or DXDW_DW. The operands name a CUDA
 * device that need not be there; nothing is read behind their addresses, of which only the alignment counts.
 */
int32_t dxdw_plan_for_chip(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                           const dxdw_options *options, int32_t capability, int32_t multiprocessors, dxdw_plan *plan);

/*
 * ---- Functions of dxdw_call ----
 *
 * Operands in the order given; one in [] may be absent: data NULL, ndim -1. What was said of types, add or assign, empty
 * sizes, aliases, status, threads and order holds here too. float means float32, float16 or bfloat16; float32 inside,
 * one rounding at the end. Where a float32 scalar is asked for, its shape is [] or [1]. Options other than accumulate,
 * stream, workspace and scalars play no part, except in DXDW_DW_BIAS.
 *
 * Elementwise, all operands of one shape of any rank, broadcast by strides of 0; inputs of one type, the output of that
 * type or float32; in place:
 *
 *   DXDW_ADD_FWD   a, b, y    y = a + b
 *   DXDW_RELU_FWD  x, y       y = x where x > 0, +0 where x <= 0, NaN where x is NaN
 *   DXDW_RELU_BWD  x, g, gx   gx = g where x > 0, else +0; NaN and infinite g count only where x > 0
 *   DXDW_GELU_FWD  x, y       y = x . Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2: the exact form, not the tanh one
 *   DXDW_GELU_BWD  x, g, gx   gx = g . (Phi(x) + x . phi(x)), phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
 *
 *   Before the last rounding Phi(x) is off by at most 4 units in the last place of a float32, or by 2^-148, and
 *   x . phi(x) likewise. At -infinity DXDW_GELU_FWD, and at both infinities DXDW_GELU_BWD, give NaN, as 0 . Inf does.
 *
 * Sums and losses. D = features, C = classes; "..." are any leading dimensions. On the CPU, neither threads nor strides
 * show in the bits; on a GPU, sums over rows and losses may be taken in another order where strides or alignment differ:
 *
 *   DXDW_SUM_ROWS  g [..., N] float, gb [N] float32
 *     gb[n] += sum over i of g[i,n]. Added by default. The order is that of gw of weighted_sum_bwd with g = 1
 *     (on a GPU, with a w aligned to 16 bytes).
 *   DXDW_DW_BIAS  x [T,K], dy [T,N], dw [K,N], db [N] float32
 *     dw as by dw_launch with these options, to the bit, and db as by DXDW_SUM_ROWS of dy, to the bit (with
 *     deterministic = 0, split > 1 and an added float32 dw, its additions are atomic as there). Both added by default,
 *     both follow accumulate. On the CPU with split = 1 and a float32 dw, dy is summed while the product has it in the
 *     caches; on a GPU, and on the CPU otherwise, two kernels run one after the other.
 *   DXDW_SOFTMAX_CROSS_ENTROPY_FWD  logits [..., C] float, labels [...] int32, loss [...] float32
 *     loss[i] = log(sum over c of exp(l[i,c] - max)) + (max - l[i,label]), max = largest of l[i,:].
 *   DXDW_SOFTMAX_CROSS_ENTROPY_BWD  logits [..., C] float, labels [...] int32, g [...], gx [..., C]
 *     gx[i,c] = g[i] . (exp(l[i,c] - max) / sum - (c == label)). g: float32 or the type of logits.
 *     A label outside 0 to C - 1 is DXDW_INVALID_ARGUMENT on the CPU, found before anything is written; on a GPU, where
 *     labels are not looked at beforehand, it gives a loss of NaN and a row of NaN in gx. A row with a NaN, with
 *     +infinity, or of nothing but -infinity gives NaN.
 *   DXDW_SQUARED_ERROR_FWD  x [..., D] float, target as x, loss [...] float32
 *     loss[i] = sum over d of (x[i,d] - target[i,d])^2.
 *   DXDW_SQUARED_ERROR_BWD  x [..., D] float, target as x, g [...], gx [..., D]
 *     gx[i,d] = 2 . g[i] . (x[i,d] - target[i,d]). g: float32 or the type of x.
 *   DXDW_SQUARED_NORM  x float of any shape, norm float32 scalar
 *     norm += sum of x^2. Added by default. The order depends on the number of elements alone, on a GPU too.
 *   DXDW_CLIP_FACTOR  norm, scale, both float32 scalars; scalars: maxNorm >= 0. In place.
 *     scale = min(1, maxNorm / sqrt(norm)); 1 for norm = 0; NaN for a norm that is NaN or negative. Always assigned.
 *
 * Optimizer steps, elementwise over one shape of any rank: p, g, velocity, m and v float32, copy float16 or bfloat16,
 * scale a float32 scalar in the operands' memory that g is multiplied by (absent: 1). One pass. What is marked with *
 * is read and written; copy is p rounded to its type. accumulate must be the default. Numbers are used in float32.
 *
 *   DXDW_SGD  p*, g, [velocity*], [copy], [scale]; scalars: lr >= 0, momentum >= 0, weight decay >= 0, nesterov 0 or 1
 *     d = scale . g + decay . p;  velocity = momentum . velocity + d;  p -= lr . (nesterov: d + momentum . velocity;
 *     else velocity). velocity begins as zeros. Without it momentum and nesterov must be 0, and p -= lr . d.
 *     That is torch.optim.SGD with dampening 0 (docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html).
 *   DXDW_ADAMW  p*, g, m*, v*, [copy], [scale]; scalars: lr >= 0, 0 <= beta1 < 1, 0 <= beta2 < 1, eps >= 0,
 *     weight decay >= 0, step = 1, 2, 3, ...
 *     d = scale . g;  p -= lr . decay . p;  m = beta1 . m + (1 - beta1) . d;  v = beta2 . v + (1 - beta2) . d^2;
 *     p -= lr . (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps). m and v begin as zeros.
 *     That is torch.optim.AdamW (docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html).
 */

/* ---- Workspace: bytes that a call with these arguments needs, after the same checks; options as for the call -------
 */

int32_t dxdw_workspace(int32_t function, const dxdw_tensor *operands, int32_t split, int32_t deterministic,
                       const dxdw_options *options, uint64_t *bytes);
int32_t dxdw_y_workspace(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *y, const dxdw_options *options,
                         uint64_t *bytes);
int32_t dxdw_dx_workspace(const dxdw_tensor *dy, const dxdw_tensor *w, const dxdw_tensor *dx,
                          const dxdw_options *options, uint64_t *bytes);
int32_t dxdw_dw_workspace(const dxdw_tensor *x, const dxdw_tensor *dy, const dxdw_tensor *dw, int32_t split,
                          int32_t deterministic, const dxdw_options *options, uint64_t *bytes);
int32_t dxdw_weighted_sum_bwd_workspace(const dxdw_tensor *x, const dxdw_tensor *w, const dxdw_tensor *g,
                                        const dxdw_tensor *gx, const dxdw_tensor *gw, const dxdw_options *options,
                                        uint64_t *bytes);

/* ---- Copies and conversions -----------------------------------------------------------------------------------------
 */

/*
 * destination[...] = source[...]: same shape, any strides, any of the three float types, either device; float32 to 16
 * bits rounds to nearest even, NaN stays NaN. int32 goes to int32 only. destination must not overlap itself or source.
 * Of options, only stream counts.
 */
int32_t dxdw_copy(const dxdw_tensor *source, const dxdw_tensor *destination, const dxdw_options *options);

/* Arrays in host memory, count elements each. Round to nearest even; NaN stays NaN (quiet); overflow gives infinity. */
int32_t dxdw_float_to_bfloat16(const float *source, uint16_t *destination, int64_t count);
int32_t dxdw_float_to_float16(const float *source, uint16_t *destination, int64_t count);
int32_t dxdw_bfloat16_to_float(const uint16_t *source, float *destination, int64_t count);
int32_t dxdw_float16_to_float(const uint16_t *source, float *destination, int64_t count);

/* ---- The library ----------------------------------------------------------------------------------------------------
 */

/* DXDW_ABI_VERSION of the library: changes when a caller built against an older header would misread it. */
int32_t dxdw_abi_version(void);

/* One line: version, SIMD level in use, CUDA architectures built in or "no CUDA". Never NULL; valid while the calling
 * thread lives. */
const char *dxdw_build_description(void);

/* SIMD level in use: "avx512bf16", "avx512", "avx2", "baseline"; on Arm "neonbf16", "neon". Static. DXDW_SIMD in the
 * environment caps it at load. */
const char *dxdw_simd_level(void);

/* Why the calling thread's last failed call failed; "" before any. Valid until that thread's next failed call. */
const char *dxdw_last_error(void);

/* CPU threads that a call may use, the caller's own included; 0 = as many as the process may run on. 1 to 1024. */
int32_t dxdw_set_threads(int32_t threads);

/* What dxdw_set_threads set, or what 0 stands for. */
int32_t dxdw_threads(void);

/* The dxdw_counter_kind named; -1 for an unknown one. */
int64_t dxdw_counter(int32_t kind);

/*
 * Writes what arrived in `tensor`: device_type, device_id, ndim, dtype_code, dtype_bits, dtype_lanes, byte_offset, then
 * the sizes and the strides (0 where strides is NULL). count = room in out. For tests of bindings.
 */
int32_t dxdw_echo(const dxdw_tensor *tensor, int64_t *out, int64_t count);

/* Does nothing: for measuring what a call costs. */
int32_t dxdw_nop(void);

/* Launches a kernel that does nothing on a stream of the thread's current device, without any check but for NULL: for
 * measuring what a launch costs. */
int32_t dxdw_cuda_nop(dxdw_stream *stream);

/*
 * Test hook: makes the operation of that dxdw_fault kind fail that comes after `skip` more of its kind, once (STICKY:
 * from then on). skip = -1 disarms. DXDW_FAULT_ALLOCATE strikes CPU scratch too.
 */
int32_t dxdw_inject_fault(int32_t fault, int64_t skip);

/* ---- Devices, memory, streams, events, graphs
 * ------------------------------------------------------------------------- */

/* Devices of that dxdw_device_type: 1 for the CPU; 0 for CUDA where there is none: dxdw_device_unavailable says why. */
int32_t dxdw_device_count(int32_t device_type);

/* Why device_type / device_id can't be used; "" when it can. Valid until the same thread asks again. */
const char *dxdw_device_unavailable(int32_t device_type, int32_t device_id);

int32_t dxdw_device_info_get(int32_t device_type, int32_t device_id, dxdw_device_info *info);

/* Device memory, aligned to 256 bytes, ordered on stream (NULL: complete on return). bytes = 0 gives NULL. */
int32_t dxdw_memory_allocate(int32_t device_id, uint64_t bytes, dxdw_stream *stream, void **address);

/* Frees it after all work so far on stream (NULL: on every stream of this library on that device). NULL address:
 * nothing. */
int32_t dxdw_memory_free(int32_t device_id, void *address, dxdw_stream *stream);

/* Host memory that the device reaches directly: copies from and to it are asynchronous. Page-aligned. */
int32_t dxdw_pinned_allocate(uint64_t bytes, void **address);
int32_t dxdw_pinned_free(void *address);

/* Fills bytes at a device address with a byte value, ordered on stream. */
int32_t dxdw_memory_set(int32_t device_id, void *address, int32_t value, uint64_t bytes, dxdw_stream *stream);

int32_t dxdw_stream_create(int32_t device_id, dxdw_stream **stream);
int32_t dxdw_stream_synchronize(dxdw_stream *stream);
/* Waits for the stream's work, then destroys it. */
int32_t dxdw_stream_destroy(dxdw_stream *stream);

int32_t dxdw_event_create(int32_t device_id, dxdw_event **event);
int32_t dxdw_event_record(dxdw_event *event, dxdw_stream *stream);
int32_t dxdw_event_synchronize(dxdw_event *event);
/* Work that comes later on stream waits for the event. */
int32_t dxdw_event_wait(dxdw_event *event, dxdw_stream *stream);
int32_t dxdw_event_elapsed(dxdw_event *start, dxdw_event *end, double *milliseconds);
int32_t dxdw_event_destroy(dxdw_event *event);

/* Between begin and end, work on stream is recorded, not run. Calls inside must bring their own workspace or need none.
 */
int32_t dxdw_graph_begin(dxdw_stream *stream);
int32_t dxdw_graph_end(dxdw_stream *stream, dxdw_graph **graph);
int32_t dxdw_graph_launch(dxdw_graph *graph, dxdw_stream *stream);
int32_t dxdw_graph_destroy(dxdw_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
