/* A driver that is too old, for the test of what the library says then: old_driver_test.c. */

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);

int cuInit(unsigned int flags) {
  (void)flags;
  return 0;
}

int cuDriverGetVersion(int *version) {
  *version = 11040;
  return 0;
}
