// Print from a kernel.

extern "C" __global__ void say(const float* x) { printf("x %f\n", x[threadIdx.x]); }
