package io.github.dxdw.cli;

import java.io.PrintStream;
import java.io.PrintWriter;
import me.tongfei.progressbar.ProgressBar;
import me.tongfei.progressbar.ProgressBarBuilder;
import me.tongfei.progressbar.ProgressBarConsumer;

/** A progress bar in the last line of a terminal, above which lines can be printed. */
final class StatusLine implements AutoCloseable {

  private static final String ERASE = "\r\033[K";
  private static final int WIDTH = 78;
  private static final int UPDATE_MILLIS = 100;

  private final PrintStream terminal;
  private final PrintWriter out;
  private final ProgressBar bar;

  /**
   * Shows a bar of {@code steps} steps on {@code terminal}; lines go to {@code out}, which is the
   * same terminal.
   */
  StatusLine(PrintStream terminal, PrintWriter out, String task, long steps) {
    this.terminal = terminal;
    this.out = out;
    this.bar =
        new ProgressBarBuilder()
            .setTaskName(task)
            .setInitialMax(steps)
            .setUpdateIntervalMillis(UPDATE_MILLIS)
            .setConsumer(new Line())
            .clearDisplayOnFinish()
            .build();
  }

  void step() {
    bar.step();
  }

  /** Prints a line in place of the bar, which comes back below it. */
  void println(String line) {
    synchronized (terminal) {
      erase();
      out.println(line);
      out.flush();
    }
  }

  /** Takes the bar away. */
  @Override
  public void close() {
    bar.close();
    synchronized (terminal) {
      erase();
    }
  }

  private void erase() {
    terminal.print(ERASE);
    terminal.flush();
  }

  private final class Line implements ProgressBarConsumer {
    @Override
    public int getMaxRenderedLength() {
      return WIDTH;
    }

    @Override
    public void accept(String rendered) {
      synchronized (terminal) {
        terminal.print(ERASE + rendered);
        terminal.flush();
      }
    }

    @Override
    public void clear() {
      synchronized (terminal) {
        erase();
      }
    }

    @Override
    public void close() {}
  }
}
