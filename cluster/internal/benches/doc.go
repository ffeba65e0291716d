// Package benches has the steps of a verification that measure GPUs in Jobs with PyTorch or
// TensorFlow: each writes its checks down, and says why it could not measure.
package benches
