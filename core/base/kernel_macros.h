// One source for the GPU and the host.
//
// Kernel bodies are inline functions marked CF_HOST_DEVICE that take the number
// of their block and thread. A .cu file calls them from a __global__ function,
// a .cc file from two loops; neither adds anything. So every index is tested
// where there is no GPU.

#ifndef CPFEED_CORE_BASE_KERNEL_MACROS_H_
#define CPFEED_CORE_BASE_KERNEL_MACROS_H_

#ifdef __CUDACC__
#define CF_HOST_DEVICE __host__ __device__
#else
#define CF_HOST_DEVICE
#endif

#endif  // CPFEED_CORE_BASE_KERNEL_MACROS_H_
