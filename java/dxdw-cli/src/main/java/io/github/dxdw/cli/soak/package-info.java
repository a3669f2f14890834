/** Hours of mixed calls from many threads: results, memory and progress are watched. */
package io.github.dxdw.cli.soak;
