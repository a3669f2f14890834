package io.github.dxdw.packaging;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;

/**
 * What a 64-bit little-endian ELF library says of itself: the processor, the libraries it needs,
 * the names it exports, and the versions of symbols that it asks for, such as {@code GLIBC_2.17}.
 * Reads libraries of any processor, as the tools of one machine need not.
 */
record Elf(
    int machine,
    Set<String> needed,
    Set<String> exported,
    Set<String> versions,
    boolean executableStack,
    boolean searchPath) {
  static final int X86_64 = 62;
  static final int AARCH64 = 183;

  private static final int DYNAMIC = 6;
  private static final int SYMBOLS = 11;
  private static final int NEEDED_VERSIONS = 0x6ffffffe;
  private static final int STACK = 0x6474e551;

  private record Section(int type, int offset, int size, int link, int info) {}

  static Elf read(byte[] library) {
    if (library.length < 64
        || !Arrays.equals(library, 0, 6, new byte[] {0x7f, 'E', 'L', 'F', 2, 1}, 0, 6)) {
      throw new IllegalArgumentException("no 64-bit little-endian ELF file");
    }
    ByteBuffer in = ByteBuffer.wrap(library).order(ByteOrder.LITTLE_ENDIAN);
    Section[] sections = sections(in);
    Set<String> needed = new TreeSet<>();
    Set<String> exported = new TreeSet<>();
    Set<String> versions = new TreeSet<>();
    boolean searchPath = false;
    for (Section section : sections) {
      int strings = section.link < sections.length ? sections[section.link].offset : 0;
      switch (section.type) {
        case DYNAMIC -> {
          for (int at = section.offset; at < section.offset + section.size; at += 16) {
            long tag = in.getLong(at);
            if (tag == 1) {
              needed.add(text(in, strings + (int) in.getLong(at + 8)));
            }
            searchPath |= tag == 15 || tag == 29;
          }
        }
        case SYMBOLS -> {
          for (int at = section.offset; at < section.offset + section.size; at += 24) {
            int type = in.get(at + 4) & 15;
            int where = in.getShort(at + 6) & 0xffff;
            if (where != 0 && where < 0xff00 && (type == 1 || type == 2)) {
              exported.add(text(in, strings + in.getInt(at)));
            }
          }
        }
        case NEEDED_VERSIONS -> {
          int at = section.offset;
          for (int file = 0; file < section.info; ++file, at += in.getInt(at + 12)) {
            int version = at + in.getInt(at + 8);
            for (int i = 0; i < in.getShort(at + 2); ++i, version += in.getInt(version + 12)) {
              versions.add(text(in, strings + in.getInt(version + 8)));
            }
          }
        }
        default -> {}
      }
    }
    return new Elf(
        in.getShort(18) & 0xffff, needed, exported, versions, executableStack(in), searchPath);
  }

  private static Section[] sections(ByteBuffer in) {
    int table = (int) in.getLong(40);
    int size = in.getShort(58);
    Section[] sections = new Section[in.getShort(60)];
    for (int i = 0; i < sections.length; ++i) {
      int at = table + i * size;
      sections[i] =
          new Section(
              in.getInt(at + 4),
              (int) in.getLong(at + 24),
              (int) in.getLong(at + 32),
              in.getInt(at + 40),
              in.getInt(at + 44));
    }
    return sections;
  }

  private static boolean executableStack(ByteBuffer in) {
    int table = (int) in.getLong(32);
    for (int i = 0; i < in.getShort(56); ++i) {
      int at = table + i * in.getShort(54);
      if (in.getInt(at) == STACK) {
        return (in.getInt(at + 4) & 1) != 0;
      }
    }
    return true;
  }

  private static String text(ByteBuffer in, int at) {
    int end = at;
    while (in.get(end) != 0) {
      ++end;
    }
    return new String(in.array(), at, end - at, StandardCharsets.US_ASCII);
  }
}
