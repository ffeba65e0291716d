// Package gpu is NVIDIA's cards, their driver, and the programs that use and build it.
package gpu
