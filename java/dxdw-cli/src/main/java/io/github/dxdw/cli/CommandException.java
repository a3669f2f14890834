package io.github.dxdw.cli;

/** A failure whose message is meant for the user as it stands. */
final class CommandException extends RuntimeException {

  private static final long serialVersionUID = 1L;

  CommandException(String message) {
    super(message);
  }
}
