package io.github.dxdw.internal;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;

/**
 * A directory, of the user alone, in which the library of a natives JAR becomes a file named by its
 * SHA-256. The hash is verified each time; what is not a regular file of this user with that hash
 * is replaced. Files are written under another name and moved into place, so JVMs may race; what a
 * killed JVM left of them is deleted by the next.
 */
final class Cache {
  static final String PROPERTY = "dxdw.cache";

  private static final FileAttribute<Set<PosixFilePermission>> PRIVATE_FOLDER =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
  private static final FileAttribute<Set<PosixFilePermission>> PRIVATE_FILE =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

  private static final int MOST_TRIES = 3;

  private final Path folder;

  private Cache(Path folder) {
    this.folder = folder;
  }

  Path folder() {
    return folder;
  }

  /**
   * The directories to try, in order: that of the property; that of the user; one in the directory
   * for temporary files. What can't be a directory's name is noted in attempts.
   */
  static List<Cache> candidates(List<String> attempts) {
    List<Cache> candidates = new ArrayList<>();
    add(candidates, attempts, System.getProperty(PROPERTY), "");
    String cacheHome = System.getenv("XDG_CACHE_HOME");
    if (cacheHome != null && cacheHome.startsWith("/")) {
      add(candidates, attempts, cacheHome, "dxdw");
    } else {
      add(candidates, attempts, System.getProperty("user.home"), ".cache/dxdw");
    }
    add(candidates, attempts, System.getProperty("java.io.tmpdir"), "dxdw-" + userId());
    return candidates;
  }

  private static void add(List<Cache> candidates, List<String> attempts, String base, String rest) {
    // The JVM calls a home directory that it can't find "?".
    if (base == null || base.isEmpty() || base.equals("?")) {
      return;
    }
    try {
      candidates.add(new Cache(Path.of(base, rest).toAbsolutePath()));
    } catch (InvalidPathException e) {
      attempts.add("cache directory " + base + ": " + e.getMessage());
    }
  }

  /** Puts the library there, unless it is there already, and returns its verified file. */
  Path place(Bundle bundle) throws IOException {
    prepareFolder();
    Path file = folder.resolve("libdxdw-" + bundle.sha256() + ".so");
    for (int i = 0; i < MOST_TRIES && !isGood(file, bundle.sha256()); ++i) {
      try (Temporary temporary = new Temporary(folder, bundle.content())) {
        Files.move(temporary.file(), file, StandardCopyOption.ATOMIC_MOVE);
      } catch (NoSuchFileException e) {
        // Taken for one of a dead process.
      }
    }
    if (!isGood(file, bundle.sha256())) {
      throw new IOException(file + " was changed while it was written");
    }
    return file;
  }

  /** A file with that content, for as long as it is not closed. */
  Temporary temporary(byte[] content) throws IOException {
    prepareFolder();
    return new Temporary(folder, content);
  }

  /**
   * A file that this process writes. It is locked while it is there, so that others can tell it
   * from one that a process left when it was killed.
   */
  static final class Temporary implements AutoCloseable {
    private static final String PREFIX = ".libdxdw-";

    private final Path file;
    private final FileChannel channel;

    private Temporary(Path folder, byte[] content) throws IOException {
      file = Files.createTempFile(folder, PREFIX, ".so", PRIVATE_FILE);
      channel = FileChannel.open(file, StandardOpenOption.WRITE);
      try {
        tryLock(channel);
        ByteBuffer rest = ByteBuffer.wrap(content);
        while (rest.hasRemaining()) {
          channel.write(rest);
        }
      } catch (IOException e) {
        close();
        throw e;
      }
    }

    Path file() {
      return file;
    }

    @Override
    public void close() throws IOException {
      try (channel) {
        Files.deleteIfExists(file);
      }
    }

    /** Deletes the files of processes that are no more. */
    static void sweep(Path folder) throws IOException {
      try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, PREFIX + "*")) {
        for (Path file : files) {
          try (FileChannel channel =
              FileChannel.open(file, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS)) {
            if (tryLock(channel)) {
              Files.deleteIfExists(file);
            }
          } catch (IOException e) {
            // Gone already, or not ours.
          }
        }
      }
    }

    /** Locks the file, unless it is locked or the file system knows no locks. */
    private static boolean tryLock(FileChannel channel) {
      try {
        return channel.tryLock() != null;
      } catch (IOException | OverlappingFileLockException e) {
        return false;
      }
    }
  }

  private void prepareFolder() throws IOException {
    if (!Files.exists(folder, LinkOption.NOFOLLOW_LINKS)) {
      if (folder.getParent() != null) {
        Files.createDirectories(folder.getParent());
      }
      try {
        Files.createDirectory(folder, PRIVATE_FOLDER);
      } catch (FileAlreadyExistsException e) {
        // Another JVM was faster; what it made is checked as anything else.
      }
    }
    PosixFileAttributes attributes = attributes(folder);
    if (!attributes.isDirectory()) {
      throw new IOException(folder + " is refused: it is no directory, or a link to one");
    }
    checkOwner(folder);
    if (othersMayWrite(attributes)) {
      throw new IOException(
          folder
              + " is refused: others may write to it ("
              + PosixFilePermissions.toString(attributes.permissions())
              + ")");
    }
    Temporary.sweep(folder);
  }

  private static boolean isGood(Path file, String sha256) throws IOException {
    try {
      PosixFileAttributes attributes = attributes(file);
      return attributes.isRegularFile()
          && !othersMayWrite(attributes)
          && owner(file) == userId()
          && sha256(file).equals(sha256);
    } catch (NoSuchFileException e) {
      return false;
    }
  }

  private static PosixFileAttributes attributes(Path path) throws IOException {
    return Files.readAttributes(path, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
  }

  private static boolean othersMayWrite(PosixFileAttributes attributes) {
    return attributes.permissions().contains(PosixFilePermission.GROUP_WRITE)
        || attributes.permissions().contains(PosixFilePermission.OTHERS_WRITE);
  }

  private static void checkOwner(Path path) throws IOException {
    int owner = owner(path);
    if (owner != userId()) {
      throw new IOException(
          path + " is refused: it belongs to user " + owner + ", this is user " + userId());
    }
  }

  private static int owner(Path path) throws IOException {
    return (int) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }

  /** The user that this process runs as; -1, whom nothing belongs to, where that is unknown. */
  private static int userId() {
    try {
      return (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    } catch (IOException | RuntimeException e) {
      return -1;
    }
  }

  static String sha256(byte[] content) {
    return HexFormat.of().formatHex(digest().digest(content));
  }

  private static String sha256(Path file) throws IOException {
    MessageDigest digest = digest();
    try (InputStream in = Files.newInputStream(file, LinkOption.NOFOLLOW_LINKS)) {
      byte[] block = new byte[1 << 16];
      for (int n = in.read(block); n >= 0; n = in.read(block)) {
        digest.update(block, 0, n);
      }
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  private static MessageDigest digest() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
