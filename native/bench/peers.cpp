#include "peers.hpp"

#include <stdio.h>

#if defined(DXDW_BENCH_OPENBLAS)
#include <cblas.h>
#endif
#if defined(DXDW_BENCH_ONEDNN)
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#endif

namespace bench {

#if defined(DXDW_BENCH_OPENBLAS)
namespace {

Peer openblas(const Product &p) {
  const int t = static_cast<int>(p.t), k = static_cast<int>(p.k), n = static_cast<int>(p.n);
  const float *a = static_cast<const float *>(p.a), *b = static_cast<const float *>(p.b);
  float *c = static_cast<float *>(p.c);
  const float beta = p.add ? 1.0f : 0.0f;
  switch (p.function) {
    case DXDW_Y:
      return {"OpenBLAS",
              [=] { cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, n, k, 1, a, k, b, n, beta, c, n); }};
    case DXDW_DX:
      return {"OpenBLAS",
              [=] { cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, k, n, 1, a, n, b, n, beta, c, k); }};
    default:
      return {"OpenBLAS",
              [=] { cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, k, n, t, 1, a, k, b, n, beta, c, n); }};
  }
}

}  // namespace
#endif

#if defined(DXDW_BENCH_ONEDNN)
namespace {

Peer onednn(const Product &p) {
  using dnnl::memory;
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  const auto type_of = [](Type type) { return type == Type::f32 ? memory::data_type::f32 : memory::data_type::bf16; };
  // C[m,n] = A[m,l] . B[l,n] with the strides of the operands as they lie.
  const int64_t m = p.function == DXDW_DW ? p.k : p.t, n = p.function == DXDW_DX ? p.k : p.n;
  const int64_t l = p.function == DXDW_Y ? p.k : p.function == DXDW_DX ? p.n : p.t;
  const memory::dims a_strides = p.function == DXDW_DW ? memory::dims{1, p.k} : memory::dims{l, 1};
  const memory::dims b_strides = p.function == DXDW_DX ? memory::dims{1, p.n} : memory::dims{n, 1};
  const memory::desc a({m, l}, type_of(p.in), a_strides), b({l, n}, type_of(p.in), b_strides);
  const memory::desc c({m, n}, type_of(p.out), memory::dims{n, 1});
  dnnl::primitive_attr attributes;
  if (p.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine));
  const std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, memory(a, engine, const_cast<void *>(p.a))},
                                                     {DNNL_ARG_WEIGHTS, memory(b, engine, const_cast<void *>(p.b))},
                                                     {DNNL_ARG_DST, memory(c, engine, p.c)}};
  return {"oneDNN", [matmul, arguments] {
            matmul.execute(stream, arguments);
            stream.wait();
          }};
}

}  // namespace
#endif

void set_peer_threads(int threads) {
#if defined(DXDW_BENCH_OPENBLAS)
  openblas_set_num_threads(threads);
#endif
#if defined(DXDW_BENCH_ONEDNN)
  omp_set_num_threads(threads);
#endif
  (void)threads;
}

std::vector<Peer> peers_for(const Product &p, int threads) {
  set_peer_threads(threads);
  std::vector<Peer> peers;
#if defined(DXDW_BENCH_OPENBLAS)
  if (p.in == Type::f32) peers.push_back(openblas(p));
#endif
#if defined(DXDW_BENCH_ONEDNN)
  if (p.in != Type::f16) peers.push_back(onednn(p));
#endif
  (void)p;
  return peers;
}

std::vector<std::string> peer_lines() {
  std::vector<std::string> lines;
#if defined(DXDW_BENCH_OPENBLAS)
  lines.push_back(std::string(openblas_get_config()) + ", kernels for " + openblas_get_corename());
#else
  lines.push_back("OpenBLAS: not built in");
#endif
#if defined(DXDW_BENCH_ONEDNN)
  const dnnl_version_t *version = dnnl::version();
  char text[128];
  snprintf(text, sizeof text, "oneDNN %d.%d.%d, instruction set 0x%x", version->major, version->minor, version->patch,
           static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
  lines.push_back(text);
#else
  lines.push_back("oneDNN: not built in");
#endif
  return lines;
}

}  // namespace bench
