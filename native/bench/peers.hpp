// OpenBLAS and oneDNN, used as someone who knows them would: row-major operands where they lie, transposes by flag or
// stride, primitives made once.
#pragma once

#include <stdint.h>

#include <functional>
#include <string>
#include <vector>

#include "dxdw.h"

namespace bench {

enum class Type { f32, f16, bf16 };

// A compact product: function is DXDW_Y, DXDW_DX or DXDW_DW; a, b, c as dxdw takes them.
struct Product {
  int32_t function;
  int64_t t, k, n;
  Type in, out;
  const void *a, *b;
  void *c;
  bool add;
};

struct Peer {
  std::string name;
  std::function<void()> run;
};

// The peers that can do this product, on `threads` threads.
std::vector<Peer> peers_for(const Product &product, int threads);

// To be called before a peer's measurements: sets its number of threads.
void set_peer_threads(int threads);

// Versions, core type, instruction set in use; one line for each peer.
std::vector<std::string> peer_lines();

}  // namespace bench
