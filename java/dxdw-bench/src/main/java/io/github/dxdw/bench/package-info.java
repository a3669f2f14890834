/** OpenBLAS and PyTorch as a Java user would take them, measured beside the library. */
package io.github.dxdw.bench;
