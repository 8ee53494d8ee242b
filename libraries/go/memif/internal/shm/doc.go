// Package shm is the memory that two processes share, and the only package of this module with unsafe code.
//
// The other side may write every byte at any time. So nothing here hands out a typed pointer into shared memory: indices and
// descriptors are loaded once, each into a private copy, and buffers are given out as byte slices that were found to lie inside
// a mapped region, to be copied from or to and for nothing else. The race detector doesn't watch mapped memory; what orders
// accesses is the atomic load or store of an index.
//
// The layout is that of memif 2.0 (little-endian): a ring is a header of 128 bytes (cookie u32 at 0, flags u16 at 4, head u16
// at 6, tail u16 at 64) and its descriptors of 16 bytes (flags u16, region u16, length u32, offset u32, metadata u32).
package shm
