/** The sample as a module. */
module sample {
  requires io.github.dxdw;
}
