package io.github.dxdw.cli;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;

/** What a run of the command line left behind. */
record Invocation(int status, String out, String err) {

  static Invocation of(String... arguments) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int status = Main.run(new PrintWriter(out), new PrintWriter(err), arguments);
    return new Invocation(status, out.toString(), err.toString());
  }

  List<String> lines() {
    return out.lines().toList();
  }

  List<String> errorLines() {
    return err.lines().toList();
  }

  /** The rest of the only output line that starts with {@code start}. */
  String after(String start) {
    List<String> found = lines().stream().filter(line -> line.startsWith(start)).toList();
    if (found.size() != 1) {
      throw new AssertionError(
          found.size() + " lines start with '" + start + "' in:\n" + out + err);
    }
    return found.getFirst().substring(start.length()).strip();
  }
}
