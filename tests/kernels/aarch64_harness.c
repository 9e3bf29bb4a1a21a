// Runs one kernel under emulation: HARNESS INDEX ARGS N_CHUNKS FILE ADDRESS SIZE.
// FILE is the memory of the test, mapped here at the address that it has there, so that pointers need no translation.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef void kernel(int64_t args, int64_t chunk, int64_t tid);
extern kernel *const kernels[];  // generated beside this file's object

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    long index = atol(argv[1]), n_chunks = atol(argv[3]);
    int64_t args = atoll(argv[2]);
    void *address = (void *)atoll(argv[5]);
    int file = open(argv[4], O_RDWR);
    if (mmap(address, atoll(argv[6]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != address) return 3;
    for (int64_t chunk = 0; chunk < n_chunks; chunk++) kernels[index](args, chunk, 0);
    return 0;
}
