// Package object has helpers for Kubernetes objects: make one, read a text or a condition, and
// compare two.
package object
