package io.github.dxdw.cli.train;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TeamTest {

  private static final long MANY = 1 << 20;

  @ParameterizedTest
  @CsvSource({"1, 10", "2, 10", "3, 10", "7, 10", "7, 3", "4, 1", "4, 0"})
  @DisplayName("Guards against items that are left out or done twice, also in the next pass")
  void eachItemIsDoneOnce(int members, int count) {
    Team team = new Team(members);
    for (int pass = 0; pass < 100; pass++) {
      AtomicIntegerArray done = new AtomicIntegerArray(count);
      team.run(
          count,
          MANY,
          (member, from, to) -> IntStream.range(from, to).forEach(done::incrementAndGet));
      for (int i = 0; i < count; i++) {
        assertEquals(1, done.get(i));
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"0", "1", "2"})
  @DisplayName("Guards against a failure of another thread that nobody learns of")
  void aFailureReachesTheCaller(int failing) {
    Team team = new Team(3);
    assertThrows(
        IllegalStateException.class,
        () ->
            team.run(
                3,
                MANY,
                (member, from, to) -> {
                  if (member == failing) {
                    throw new IllegalStateException("member " + member);
                  }
                }));
  }
}
