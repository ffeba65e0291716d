// Package object has what programs of the lab do with Kubernetes objects: make one, read
// a text or a condition of it, and compare two.
package object
