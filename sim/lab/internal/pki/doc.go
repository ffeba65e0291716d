// Package pki makes the certificates and keys of the lab's programs.
package pki
