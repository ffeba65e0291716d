// Package verification proves that the GPUs of a cluster compute: it runs a Job on every one of
// them, and judges what the nodes report.
package verification
