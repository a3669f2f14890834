package io.github.dxdw.cli;

import io.github.dxdw.Dxdw;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Ansi;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ScopeType;
import picocli.CommandLine.Spec;

/**
 * The command line. Exit status 0 when all went well, 1 when something failed, 2 for a usage that
 * is not understood. A failure is one line on standard error; {@code --verbose} adds the stack
 * trace.
 */
@Command(
    name = "dxdw",
    description = "The gradient kernels of a matrix product, for the JVM.",
    scope = ScopeType.INHERIT,
    mixinStandardHelpOptions = true,
    versionProvider = Main.Version.class,
    subcommands = {
      InfoCommand.class,
      PlanCommand.class,
      TrainCommand.class,
      BenchCommand.class,
      SoakCommand.class,
      ShellCommand.class
    })
public final class Main implements Callable<Integer> {

  @Option(
      names = "--verbose",
      scope = ScopeType.INHERIT,
      description = "Show the stack trace of a failure.")
  private boolean verbose;

  @Spec private CommandSpec spec;

  private Main() {}

  /** Runs the command line and ends the process with its exit status. */
  public static void main(String[] arguments) {
    Output output = new Output();
    PrintWriter out = new PrintWriter(output, true, System.out.charset());
    PrintWriter err = new PrintWriter(System.err, true);
    int status = run(out, err, arguments);
    if (out.checkError()) {
      status = Math.max(status, CommandLine.ExitCode.SOFTWARE);
      // A reader that has seen enough needs no message.
      if (!output.failure.contains("Broken pipe")) {
        report(err, "the output can't be written: " + output.failure);
      }
    }
    System.exit(status);
  }

  /** Standard output that remembers why it failed, which a PrintWriter doesn't tell. */
  private static final class Output extends FilterOutputStream {
    private String failure = "";

    private Output() {
      super(new FileOutputStream(FileDescriptor.out));
    }

    @Override
    public void write(byte[] bytes, int from, int count) throws IOException {
      try {
        out.write(bytes, from, count);
      } catch (IOException e) {
        failure = String.valueOf(e.getMessage());
        throw e;
      }
    }
  }

  /** Runs the command line with the given streams and returns its exit status. */
  static int run(PrintWriter out, PrintWriter err, String... arguments) {
    Main main = new Main();
    CommandLine commandLine = new CommandLine(main);
    BenchCommand.addTasks(commandLine);
    commandLine
        .setOut(out)
        .setErr(err)
        .setCaseInsensitiveEnumValuesAllowed(true)
        .setParameterExceptionHandler((failure, unused) -> main.usage(failure, err))
        .setExecutionExceptionHandler((failure, command, unused) -> main.failed(failure, err));
    try {
      return commandLine.execute(arguments);
    } catch (Error failure) {
      // Such as memory that does not suffice, or a library that can't be linked.
      return main.failed(failure, err);
    }
  }

  /** Without a command: explains the usage. */
  @Override
  public Integer call() {
    throw new ParameterException(
        spec.commandLine(),
        "a command is missing: " + String.join(", ", spec.subcommands().keySet()));
  }

  private int usage(ParameterException failure, PrintWriter err) {
    CommandLine command = failure.getCommandLine();
    report(
        err,
        failure.getMessage()
            + " ("
            + command.getCommandSpec().qualifiedName()
            + " --help shows the usage)");
    if (verbose) {
      failure.printStackTrace(err);
    }
    return CommandLine.ExitCode.USAGE;
  }

  private int failed(Throwable failure, PrintWriter err) {
    report(err, describe(failure));
    if (verbose) {
      failure.printStackTrace(err);
    }
    return CommandLine.ExitCode.SOFTWARE;
  }

  private static void report(PrintWriter err, String message) {
    err.println(
        Ansi.AUTO.string("@|bold,red dxdw:|@ ") + message.strip().replaceAll("\\s*\\R\\s*", " "));
  }

  private static String describe(Throwable failure) {
    Throwable cause = failure;
    while (cause instanceof ExceptionInInitializerError && cause.getCause() != null) {
      cause = cause.getCause();
    }
    String message = cause.getMessage();
    boolean ours =
        cause instanceof CommandException
            || cause.getClass().getName().startsWith("io.github.dxdw.");
    if (message == null) {
      return cause.getClass().getName();
    }
    return ours || cause instanceof IllegalArgumentException
        ? message
        : cause.getClass().getSimpleName() + ": " + message;
  }

  /** Tells the version of the native library. */
  static final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() {
      return new String[] {"dxdw " + Dxdw.version()};
    }
  }
}
