// Package offer says what a node offers: its GPUs, whole ones, shares of them, or instances into
// which they are divided; and what the kubelet keeps of its CPUs, memory and pods.
package offer
