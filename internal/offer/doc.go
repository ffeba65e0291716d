// Package offer says what a node offers of its GPUs: whole ones, shares of them, or instances
// into which they are divided.
package offer
